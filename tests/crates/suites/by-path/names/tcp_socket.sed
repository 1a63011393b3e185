# More of what awaits.
s/\bcli\.connect(/cli.connect_async(/
