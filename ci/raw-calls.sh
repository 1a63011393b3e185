#!/usr/bin/env bash
# Checks that the runtime calls none of the functions of libc that it replaces (features `interpose` and
# `sim`): its own code makes system calls by netpoll/src/raw.rs. The script looks at the undefined symbols of
# all crates that are linked, and at the sources, also for std's yield. The lists below say which uses are
# allowed, and why. Needs nm and python3.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"

# "CRATE SYMBOLS: REASON". A crate that is not listed refers to none of the functions; std may refer to all.
cat >"$target/raw-calls.allowed" <<'EOF'
sim clock_gettime: the check that a program with simulations has the line `runtime::sim!();`
interpose clock_gettime: the time that C sees (sleep.rs)
sim syscall: statx outside of a simulation, as the caller's own call
timers clock_gettime: the time of the timers, which is the simulated time in a simulation, as that of std's `Instant` (clock/linux.rs)
sched clock_gettime: the CPU time of a thread, which no simulation answers (watch/debugger.rs)
sched pthread_sigmask raise: the effect of a signal without its handler, in that handler, where the hook is the system call (sys/default_effect.rs, stack/overflow.rs)
sched pthread_self: whether a thread asks for its own stack (m/bounds.rs), by the name that the hook gives it; the trial of blocks (tls/try_out.rs), before any green thread
monochrome_inspect parking_lot parking_lot_core syscall: a futex, of a lock that is contended; a wake looks for green threads, too; no lock of the table is held, and no signal handler runs
mio accept4 close connect epoll_wait: in the runtime, where a hook is the system call; or on non-blocking sockets; close ends waits of foreign code
mio epoll_create1 eventfd: of the poller, in the runtime or outside of a simulation, where a hook is the system call; the user's own are for a simulation
mio bind epoll_ctl fcntl getsockopt ioctl listen setsockopt socket socketpair: on sockets of the system, or in the runtime, where a hook is the system call
socket2 accept accept4 close connect poll recv recvfrom recvmsg send sendmsg sendto: sockets of the user, non-blocking
socket2 bind fcntl getpeername getsockname getsockopt listen sendfile setsockopt shutdown socket socketpair: sockets of the user; of the system unless the user has a simulated one
rustix backtrace signal_hook fcntl: on descriptors that are no sockets, where a hook is libc's function; not in a signal handler
signal_hook raise sigprocmask: the effect of a signal without its handler, in that handler, where the hook is the system call
signal_hook close send write: the handler sends with MSG_DONTWAIT, which is the system call; the runtime gives it sockets, and no pipe to write to
signal_hook_registry write: a message before it aborts the process
rustix backtrace close: OwnedFd; close ends waits of foreign code
EOF

python3 - "$target/raw-calls.allowed" <<'EOF'
import json, re, subprocess, sys
from pathlib import Path

FEATURES = "interpose,debug,sim,tracing"
build = ["cargo", "build", "--quiet", "-p", "monochrome", "--features", FEATURES, "--message-format=json"]
crates = {}
for line in subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and "custom-build" not in message["target"]["kind"]:
        for file in message["filenames"]:
            if file.endswith(".rlib"):
                crates.setdefault(message["target"]["name"], []).append(file)

def symbols(kind, file):
    out = subprocess.run(["nm", kind, "--format=posix", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return {(fields[0], fields[1]) for fields in map(str.split, out.splitlines()) if len(fields) > 1}

hooks = set(re.findall(r"(\w+) = \$crate::hooks::functions::", Path("runtime/src/hooks.rs").read_text()))
if not {"read", "nanosleep", "syscall", "clock_gettime"} <= hooks:
    sys.exit(f"ci/raw-calls.sh: the functions that the program defines were not found, but only {sorted(hooks)}")
# A feature alone defines none of them: a program without the line `runtime::interpose!();` or `runtime::sim!();` has libc's.
[runtime] = crates["runtime"]
if defined := {name for name, _ in symbols("--defined-only", runtime)} & hooks:
    sys.exit(f"ci/raw-calls.sh: the runtime itself defines {sorted(defined)}")

allowed = {}
for line in Path(sys.argv[1]).read_text().splitlines():
    words = line.split(":")[0].split()
    for crate in filter(crates.__contains__, words):
        allowed.setdefault(crate, set()).update(word for word in words if word in hooks)

wrong = []
for crate, files in sorted(crates.items()):
    uses = {name for file in files for name, kind in symbols("--undefined-only", file)} & hooks
    # What only a build script links, such as `autocfg`, is no part of the program.
    if crate not in {"autocfg", "version_check"}:
        wrong += [f"{crate} refers to {name}" for name in sorted(uses - allowed.get(crate, set()))]
        unused = allowed.get(crate, set()) - uses
        wrong += [f"{crate} does not refer to {name} any more: shorten the list" for name in sorted(unused)]

# The list allows names in the symbols of `runtime`, so its sources are read, too. Code of tests may call libc.
call = re.compile(r"\blibc::(%s)\(" % "|".join(sorted(hooks)))
BY_RIGHT = {
    ("timers/src/clock/linux.rs", "clock_gettime"),  # In a simulation the simulated time.
    ("netpoll/src/raw.rs", "syscall"),  # Where the program defines no functions of libc.
    ("netpoll/src/sys/unix.rs", "poll"),  # Elsewhere than on Linux.
    ("sched/src/sys/unix.rs", "write"),  # Elsewhere than on Linux.
    ("sched/src/watch/debugger.rs", "clock_gettime"),  # The CPU time of a thread.
    ("sched/src/sys/default_effect.rs", "raise"),  # In a signal handler, here and in the next two.
    ("sched/src/sys/default_effect.rs", "pthread_sigmask"),
    ("sched/src/stack/overflow.rs", "raise"),
    ("sched/src/m/bounds.rs", "pthread_self"),  # The name that the caller has for itself.
    ("sched/src/tls/try_out.rs", "pthread_self"),  # Before any green thread.
    ("runtime/interpose/src/sleep.rs", "clock_gettime"),  # The time that C sees: in a simulation the simulated time.
    ("runtime/sim/src/clock.rs", "clock_gettime"),  # The check that the program has the line.
    ("runtime/sim/src/disk/metadata.rs", "syscall"),  # Outside of a simulation, as the caller's own call.
}
# std's yield goes by libc's name, and a hook parks a green thread there. The runtime's own code yields by
# `sched::sys::yield_thread`.
yields = re.compile(r"(?<!loom::)\bthread::yield_now\b|^    thread::yield_now,")
YIELD_BY_RIGHT = {
    "sched/src/sys/threads.rs",  # Where no hooks are.
    # The caller is in the runtime, or its lock is counted (sched/src/sync/hold.rs). So the hook only makes the
    # system call.
    "timers/src/sync.rs",
    "runtime/src/sim.rs",  # These two ask whether the hook is there.
    "runtime/sim/src/node.rs",
}
# Programs with `--cfg kqueue_model` are tests, and define no functions but that of the model.
LEFT_OUT = {"netpoll/src/sys/kqueue_model.rs"}
for crate in ["netpoll", "sched", "sysmon", "timers", "runtime", "runtime/inspect", "runtime/interpose", "runtime/sim", "runtime/waits"]:
    for file in sorted(Path(crate, "src").rglob("*.rs")):
        if str(file) in LEFT_OUT:
            continue
        text = re.split(r"mod (?:tests|models) \{", file.read_text())[0]
        of_tests = file.name in {"tests.rs", "models.rs"} or "models" in file.parts
        for line in text.splitlines():
            if yields.search(line) and not line.lstrip().startswith("//") and not of_tests and str(file) not in YIELD_BY_RIGHT:
                wrong.append(f"{file}: {line.strip()}")
            if (found := call.search(line)) and not line.lstrip().startswith("//"):
                if (str(file), found[1]) not in BY_RIGHT:
                    wrong.append(f"{file}: {line.strip()}")

print("\n".join(f"ci/raw-calls.sh: {each}" for each in wrong), end="\n" if wrong else "")
print(f"ci/raw-calls.sh: {len(hooks)} functions, {len(crates)} crates, {len(wrong)} wrong")
sys.exit(bool(wrong))
EOF
