"""lldb: lists green threads and walks their stacks, in living processes and core files.

    (lldb) command script import runtime/debug/green_lldb.py
    (lldb) green list             lists all; `green list TEXT` those whose line contains TEXT
    (lldb) green 17 bt            the stack of green thread 17; a name does, too, in quotes if it has blanks; `bt 10` prints ten frames
    (lldb) green 17               enters it: now `bt`, `up`, `frame select 3`, `frame variable` work there, until `green off` or
                                  `continue`
    (lldb) green all bt           all stacks, equal ones together
"""

import os
import re
import shlex
import sys
import time

import lldb

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
import green_lldb_threads
import green_threads

# Ids of threads that no system gives.
FIRST_ID = 1 << 40
# What the older mangling of Rust writes for other characters.
MANGLED = [
    ("_$", "$"), ("$LT$", "<"), ("$GT$", ">"), ("$LP$", "("), ("$RP$", ")"), ("$RF$", "&"), ("$BP$", "*"), ("$C$", ","),
    ("$u7b$", "{"), ("$u7d$", "}"), ("$u20$", " "), ("$u5b$", "["), ("$u5d$", "]"), ("$u27$", "'"), ("$u3b$", ";"), ("$u2b$", "+"),
    ("..", "::"),
]
# The newer names of symbols have the crate's hash behind its name.
ROOT = re.compile(r"\bsched(\[[0-9a-f]+\])?::stack::coro::root\b|\bstack_init_trampoline")


def process():
    found = lldb.debugger.GetSelectedTarget().GetProcess()
    if not found.IsValid():
        raise green_threads.Missing("no process and no core file")
    return found


def is_core(of):
    return of.GetPluginName() == "elf-core"


def now(of):
    """Returns the clock of a core file, which ends when the file was written, or of the living process. See `Reader`."""
    if not is_core(of):
        return (0, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    path = core_file()
    return (1, os.stat(path).st_mtime_ns if path else 0)


def core_file():
    """Returns the core file: lldb has mapped it, and does not tell its name."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    return next((path for path in sorted(paths) if is_elf_core(path)), None)


def is_elf_core(path):
    try:
        with open(path, "rb") as file:
            start = file.read(18)
    except OSError:
        return False
    return start[:4] == b"\x7fELF" and start[16:] == b"\x04\0"


def reader():
    of, target = process(), lldb.debugger.GetSelectedTarget()
    machine = "x86_64" if target.triple.startswith("x86_64") else "aarch64"
    green_lldb_threads.MACHINE = machine

    def read(at, length):
        if not length:
            return b""
        memory = of.ReadMemory(at, length, lldb.SBError())
        # A core file lacks what is in the program's file.
        memory = memory or target.ReadMemory(lldb.SBAddress(at, target), length, lldb.SBError())
        if not memory or len(memory) < length:
            raise green_threads.Unreadable(at)
        return memory

    def address_of(name):
        for found in target.FindSymbols(name):
            address = found.GetSymbol().GetStartAddress().GetLoadAddress(target)
            if address != lldb.LLDB_INVALID_ADDRESS:
                return address
        return None

    return green_threads.Reader(read, address_of, machine, now(of))


def all_greens():
    """Returns all green threads, and the OS threads that run some of them."""
    os_threads = [thread for thread in process() if thread.GetThreadID() < FIRST_ID]
    greens = reader().all()
    return greens, green_threads.on_threads(greens, [(thread.GetFrameAtIndex(0).GetSP(), thread) for thread in os_threads])


def load_plugin():
    """Makes lldb ask for the entered green threads."""
    path = os.path.join(FOLDER, "green_lldb_threads.py")
    setting = lldb.debugger.GetInternalVariableValue("target.process.python-os-plugin-path", lldb.debugger.GetInstanceName())
    if setting.GetSize() == 0 or setting.GetStringAtIndex(0) != path:
        lldb.debugger.HandleCommand(f"settings set target.process.python-os-plugin-path {shlex.quote(path)}")


def thread_of(green, running):
    """Returns lldb's thread for `green`: the OS thread that runs it, or a thread of its own; None if it has no stack."""
    on = running.get(green.id)
    if on or not green.registers:
        return on
    load_plugin()
    tid = FIRST_ID + green.id
    green_lldb_threads.enter(process(), tid, green.registers, f"green {green.id}")
    thread = process().CreateOSPluginThread(tid, 0)
    # A green thread that was entered before may be known, with its registers.
    return thread if thread.IsValid() else process().GetThreadByID(tid)


def leave(but=None):
    """Forgets the entered green threads, so that `thread list` shows the OS threads alone."""
    for tid in [tid for tid in green_lldb_threads.ENTERED if tid != but]:
        del green_lldb_threads.ENTERED[tid]


def name_of(frame):
    """Returns the name of the function as Rust writes it."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", frame.GetFunctionName() or "")
    for mangled, text in MANGLED:
        name = name.replace(mangled, text)
    return name


def frames(thread, most):
    """Returns the lines of the frames up to the green thread's entry."""
    lines = []
    for frame in thread:
        name = name_of(frame)
        if len(lines) == most or ROOT.search(name) or frame.GetPC() == 0:
            break
        line = frame.GetLineEntry()
        place = f" at {line.GetFileSpec().fullpath}:{line.GetLine()}" if line.IsValid() else ""
        lines.append(f"#{len(lines):<3}{frame.GetPC():#018x} in {name}{place}")
    return "\n".join(lines)


def backtrace(green, running, most=None):
    thread = thread_of(green, running)
    return frames(thread, most) if thread and thread.IsValid() else f"(no stack: {green.what()})"


def list_command(words, result):
    greens, running = all_greens()

    def line(green):
        thread = running.get(green.id)
        note = f" on OS thread {thread.GetIndexID()} ({thread.GetName() or 'LWP %d' % thread.GetThreadID()})" if thread else ""
        return green_threads.line_of(green, note)

    for text in green_threads.listing(greens, line, " ".join(words)):
        result.AppendMessage(text)


def all_command(words, result):
    greens, running = all_greens()
    most = int(words[0]) if words else None
    for text in green_threads.all_stacks(greens, lambda green: backtrace(green, running, most)):
        result.AppendMessage(text)
    leave()


def one_command(words, result):
    greens, running = all_greens()
    found = green_threads.chosen(greens, words[0])
    if not found:
        raise green_threads.Missing(f"no green thread {words[0]}")
    if words[1:2] == ["bt"]:
        for green in found:
            result.AppendMessage(green_threads.line_of(green))
            result.AppendMessage(backtrace(green, running, int(words[2]) if words[2:] else None))
        return leave()
    green = found[0]
    result.AppendMessage(green_threads.line_of(green))
    thread = thread_of(green, running)
    if not thread or not thread.IsValid():
        raise green_threads.Missing(f"no stack: {green.what()}")
    leave(but=thread.GetThreadID())
    process().SetSelectedThread(thread)


def off_command():
    chosen = process().GetSelectedThread()
    leave()
    if not chosen.IsValid() or chosen.GetThreadID() >= FIRST_ID:
        process().SetSelectedThread(process().GetThreadAtIndex(0))


def green(debugger, command, context, result, internal):
    """Lists green threads and walks their stacks: green list [TEXT], green ID|NAME [bt [COUNT]], green all bt [COUNT], green off.
Without `bt` it enters the green thread: `bt`, `up` and `frame variable` work there until `green off`."""
    try:
        words = shlex.split(command)
        if words[:1] == ["list"]:
            list_command(words[1:], result)
        elif words == ["off"]:
            off_command()
        elif words[:2] == ["all", "bt"]:
            all_command(words[2:], result)
        elif words and words[1:2] in ([], ["bt"]):
            one_command(words, result)
        else:
            raise green_threads.Missing("usage: green list [TEXT], green ID|NAME [bt [COUNT]], green all bt [COUNT], green off")
    # ValueError: a quote without its end, or a number of frames that is none.
    except (green_threads.Missing, green_threads.Unreadable, ValueError) as error:
        result.SetError(str(error))


def __lldb_init_module(debugger, internal):
    debugger.HandleCommand("command script add -f green_lldb.green green")
