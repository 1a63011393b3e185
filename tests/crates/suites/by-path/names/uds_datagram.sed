# More of what awaits.
s/\.\(send\)(/.\1_async(/
