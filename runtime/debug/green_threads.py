"""Reads the green threads of a process or a core file: what the scripts for gdb and lldb have in common.

The program needs its symbol table, and no debug information: the symbol `runtime_for_debuggers` is a list of names and values
(sched/src/watch/debugger.rs), by which this file finds the table of all green threads.
"""

import bisect
import struct

SYMBOL = "runtime_for_debuggers"
WORD = 8
IDLE, RUNNABLE, RUNNING, WAITING, DEAD = range(5)
STATES = ["idle", "ready", "running", "waiting", "ended"]
# The most green threads that a list shows, the most groups of the others, and the most stacks that are walked.
MOST_LINES, MOST_GROUPS, MOST_STACKS = 1000, 50, 200
# How much of a stack decides whether it is like another one, and how far the program's code may lie from where a green thread goes on.
MOST_BYTES, CODE_BYTES = 16 << 10, 256 << 20


class Missing(Exception):
    """The program has no green threads that can be found; the text says why."""


class Unreadable(Exception):
    """Memory that is not there. In a core file these are pages that were not written to it."""

    def __init__(self, address):
        super().__init__(f"cannot read the memory at {address:#x}")


class Registers:
    """Where a suspended green thread goes on."""

    def __init__(self, pc, sp, fp, others):
        self.pc, self.sp, self.fp, self.others = pc, sp, fp, others


class Green:
    """One green thread. `stack` and `registers` are read when they are first asked for, because there may be many green threads."""

    def __init__(self, reader, coro, **fields):
        self.reader, self.coro, self.known = reader, coro, False
        self.__dict__.update(fields)

    @property
    def stack(self):
        """The addresses of its stack; None if it has none, and if its stack is not in the core file."""
        return self.reader.stack(self.coro) if self.coro else None

    @property
    def registers(self):
        """None unless its frames lie on a stack that no OS thread uses at the moment."""
        if not self.known:
            self.known, stack = True, self.stack
            self.saved = self.reader.registers(self.coro, stack) if stack else None
        return self.saved

    def state(self):
        return "waiting for " + self.waits_for if self.status == WAITING else STATES[self.status]

    def since(self):
        if self.status != WAITING or self.waits_ms is None:
            return ""
        return f"{self.waits_ms} ms" if self.waits_ms < 1000 else f"{self.waits_ms // 1000} s"

    def what(self):
        """Why no frames can be shown."""
        if self.coro and not self.stack:
            return "its stack is not in the core file"
        if self.is_future:
            return "a future, which has no stack while it is not polled"
        if self.status == RUNNABLE:
            return "it has not begun"
        return "it has no stack at the moment"


class Reader:
    """Reads the table. `read(address, bytes)` returns memory; `address_of(symbol)` an address or None. `now` is a pair: 0 for the
    system's monotonic clock or 1 for its real-time clock, and that clock's time in ns, at which the process stands still."""

    def __init__(self, read, address_of, machine, now):
        self.read, self.machine, self.now = read, machine, now
        start = address_of(SYMBOL)
        if start is None:
            raise Missing(f"no symbol {SYMBOL}: the program has no green threads of this runtime, or was stripped of its symbols")
        self.values, at = {}, start
        while True:
            name, value = struct.unpack("<QQ", read(at, 2 * WORD))
            if name == 0:
                break
            self.values[self.c_string(name)] = value
            at += 2 * WORD
        if self["version"] != 1:
            raise Missing("these scripts are of another version of the runtime than the program")
        self.places, self.names = {0: ""}, {0: ""}
        self.whys = [self.text(self["whys"] + i * 2 * WORD) for i in range(self["whys.len"])]

    def __getitem__(self, name):
        try:
            return self.values[name]
        except KeyError:
            raise Missing(f"the program's runtime does not tell '{name}': take the scripts of its version") from None

    def word(self, address):
        return struct.unpack("<Q", self.read(address, WORD))[0]

    def c_string(self, address):
        text = b""
        while b"\0" not in text:
            text += self.read(address + len(text), 8)
        return text.split(b"\0")[0].decode()

    def text(self, address):
        """The text to which a Rust `&str` at `address` points."""
        start, length = struct.unpack("<QQ", self.read(address, 2 * WORD))
        return self.read(start, length).decode(errors="replace") if length else ""

    def place(self, address):
        if address not in self.places:
            line = struct.unpack("<I", self.read(address + 2 * WORD, 4))[0]
            self.places[address] = f"{self.text(address)}:{line}"
        return self.places[address]

    def since_began(self):
        """The time of the program's clock in ms; None if it is not known."""
        clock, now = self.now
        began = self.word(self["clock_began"] + clock * WORD)
        return (now - began) // 1_000_000 if began and now > began else None

    def all(self):
        """Returns all green threads that live, in the order of their ids."""
        made, table, size = struct.unpack("<I", self.read(self["made"], 4))[0], self["table"], self["g.bytes"]
        begun, found, before = self.since_began(), [], 0
        for chunk in range(self["chunks"]):
            held = self["first_chunk"] << chunk
            # Index 0 names no G, and its place is not used.
            first, last = max(before, 1), min(before + held, made)
            if first >= last:
                break
            base = self.word(table + chunk * WORD)
            memory = bytes(self.read(base + (first - before) * size, (last - first) * size))
            for i in range(last - first):
                green = self.green(memory[i * size:(i + 1) * size], begun)
                if green:
                    found.append(green)
            before += held
        return sorted(found, key=lambda green: green.id)

    def green(self, g, begun):
        word = lambda field: struct.unpack_from("<Q", g, self[field])[0]
        status = g[self["g.status"]]
        # A proxy of a plain OS thread has no runtime.
        if status in (IDLE, DEAD) or status > DEAD or word("g.runtime") == 0:
            return None
        ms = None
        if begun is not None:
            ms = begun - struct.unpack_from("<I", g, self["g.waits_since"])[0] & 0xFFFFFFFF
            # The last one may have parked a moment after the clock was read.
            ms = 0 if ms >> 31 else ms
        why, coro, place, name = g[self["g.waits_for"]] & ~self["g.waits_for.timed"], word("g.coro"), word("g.origin"), ""
        # The lowest bit says that the word leads to a name too.
        if place & 1:
            named = place & ~1
            place, name = self.word(named + self["origin.place"]), self.text(named + self["origin.name"])
        return Green(
            self, coro, id=word("g.id"), status=status, name=name, place=self.place(place), waits_ms=ms,
            waits_for=self.whys[why] if why < len(self.whys) else f"reason {why}", is_future=bool(g[self["g.drives"]]))

    def stack(self, coro):
        """Returns the addresses of the stack of a coroutine, which lies at its top; None if the core file was written without it.

        The debugger reads memory that the file lacks as zeros, or not at all. No stack begins at 0."""
        try:
            lowest = self.word(coro + self["coro.lowest"])
        except Unreadable:
            return None
        return range(lowest, coro) if lowest else None

    def registers(self, coro, stack):
        """Returns the saved registers of a coroutine; None while an OS thread runs on it.

        Of the words of corosensei's coroutine two lie inside the stack: where it began, and, below that, where it was suspended. The
        second is 0 while the coroutine runs, and both are equal before it has begun."""
        words = self["coro.inner.words"]
        inner = struct.unpack(f"<{words}Q", self.read(coro + self["coro.inner"], words * WORD))
        within = sorted(word for word in inner if word in stack)
        if len(within) != 2 or within[0] == within[1]:
            return None
        sp, length = within[0], self["saved.len"]
        saved = struct.unpack(f"<{length}Q", self.read(sp, length * WORD))
        others = {"rbx": saved[1]} if self.machine == "x86_64" else {"x19": saved[0]}
        return Registers(saved[self["saved.pc"]], sp + length * WORD, saved[self["saved.fp"]], others)


def line_of(green, note=""):
    """One line of the list."""
    # Its `repr` has no line breaks and no escape sequences.
    name = f" {green.name!r}" if green.name else ""
    since = f", for {green.since()}" if green.since() else ""
    kind = " (future)" if green.is_future else ""
    return f"{green.id:>6}{name}{kind}: {green.state()}{since}{note}, spawned at {green.place}"


def chosen(greens, which):
    """Returns the green threads with this id or name."""
    if which.isdigit():
        return [green for green in greens if green.id == int(which)]
    return [green for green in greens if green.name == which.strip("'\"")]


def on_threads(greens, pointers):
    """Returns the OS threads that run on the stacks of green threads, by the ids of these. `pointers` has the OS threads with their stack
    pointers. A coroutine lies at the top of its stack, so only the next one above a stack pointer comes into question."""
    with_stack = sorted((green for green in greens if green.coro), key=lambda green: green.coro)
    tops, found = [green.coro for green in with_stack], {}
    for sp, thread in pointers:
        above = bisect.bisect_right(tops, sp)
        if above < len(tops) and sp in (with_stack[above].stack or ()):
            found[with_stack[above].id] = thread
    return found


def counted(keys):
    """Returns the keys with their numbers, the most frequent first."""
    counts = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])


def listing(greens, line, text=""):
    """The lines of a list: those of the green threads whose line contains `text`, and how many there are. Of very many green threads it
    shows the first, and of the others only what they do and where they were spawned. `line` makes the line of one."""
    chosen = [green for green in greens if not text or text in line(green)]
    yield from map(line, chosen[:MOST_LINES])
    others = counted((green.state(), green.place) for green in chosen[MOST_LINES:])
    if others:
        yield f"and {len(chosen) - MOST_LINES} more:"
    for (state, place), count in others[:MOST_GROUPS]:
        yield f"{count:>6} {state}, spawned at {place}"
    if others[MOST_GROUPS:]:
        yield f"       and {sum(count for _, count in others[MOST_GROUPS:])} others"
    yield f"{len(chosen)} of {len(greens)} green threads" if text else f"{len(greens)} green threads"


def likeness(green):
    """What green threads with equal stacks mostly have in common: the words on the stack that may be return addresses. A green thread
    without saved registers is like no other if it has a stack: an OS thread uses that stack, also while the green thread waits in place."""
    registers = green.registers
    if not registers:
        return (green.id,) if green.stack else green.what()
    length = min(green.stack.stop - registers.sp, MOST_BYTES) // WORD
    words = struct.unpack(f"<{length}Q", green.reader.read(registers.sp, length * WORD))
    least, most = registers.pc - CODE_BYTES, registers.pc + CODE_BYTES
    return (registers.pc, *(word for word in words if least < word < most))


def all_stacks(greens, backtrace):
    """The lines of all stacks, the most frequent first. `backtrace` walks one, which takes some milliseconds. So of green threads whose
    stacks are alike one is walked."""
    alike, stacks, walked = {}, {}, 0
    for green in greens:
        alike.setdefault(likeness(green), []).append(green)
    for same in sorted(alike.values(), key=len, reverse=True)[:MOST_STACKS]:
        walked += len(same)
        stacks.setdefault(backtrace(same[0]), []).extend(same)
    for stack, same in sorted(stacks.items(), key=lambda item: -len(item[1])):
        yield from map(line_of, same[:3])
        if len(same) > 3:
            yield f"       and {len(same) - 3} more with this stack"
        yield stack + "\n"
    if walked < len(greens):
        yield f"The stacks of {len(greens) - walked} green threads are not shown."
