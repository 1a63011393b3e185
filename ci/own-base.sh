#!/usr/bin/env bash
# Checks that the functions that go from one block of thread-locals to another touch no thread-local. A compiler may keep the address of
# a thread-local for a whole function, so one that is inlined there could be that of another green thread. Usage: ci/own-base.sh PROGRAM
# (a release build with the runtime, for x86-64). Needs objdump.
set -euo pipefail
[ $# = 1 ] || { echo "ci/own-base.sh: which program?" >&2; exit 2; }
for function in run_with_locals resume_with_block; do
    # A read of the base, `%fs:0x0`, also begins each other access: the one that `enter` makes is known.
    objdump -d --no-show-raw-insn "$1" | awk -v name="$function" '
        /^[0-9a-f]+ </ { inside = index($0, name); if (inside) found = 1; next }
        inside && /wrfsbase/ { sets++; next }
        inside && /%fs:0x0,/ { reads++; next }
        inside && /%fs:|__tls_get_addr/ { print "ci/own-base.sh: " name " touches a thread-local: " $0; failed = 1 }
        END {
            if (!found || !sets) { print "ci/own-base.sh: " name " does not set the base in this program"; failed = 1 }
            if (reads != 1) { print "ci/own-base.sh: " name " reads the base " reads + 0 " times, where 1 is known"; failed = 1 }
            exit failed
        }'
done
echo "ci/own-base.sh: no thread-local is touched between two blocks"
