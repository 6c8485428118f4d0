# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs an analysis of lttng-analyses: /usr/bin/python3 lttng_analyses.py MODULE:FUNCTION ARGUMENT...

With --mended first, it is mended where it would end with an error, or see nothing; what it counts, and how, is left as it is.
"""

import importlib
import sys


def mend():
    from lttnganalyses.core import event, io
    from lttnganalyses.linuxautomaton import automaton, irq, sp

    # It knows events by the names that they had before LTTng 2.6.
    names = {f"softirq_{what}": f"irq_softirq_{what}" for what in ("raise", "entry", "exit")}
    names["netif_receive_skb"] = "net_if_receive_skb"
    take = sp.StateProvider.__init__

    def take_both(self, state, cbs):
        take(self, state, cbs | {new: cbs[old] for old, new in names.items() if old in cbs})

    sp.StateProvider.__init__ = take_both

    # It ends when a state dump tells the process of a thread that has a descriptor which the process has closed.
    def give_files(thread, process):
        for fd, files in thread.fds.items():
            if process.get_fd(fd) is None:
                process.fds.setdefault(fd, []).extend(files)
        thread.fds.clear()

    io.IoAnalysis._assign_fds_to_parent = staticmethod(give_files)

    # It copies the first event with all fields, and ends at one with a value that has no name. No more than this is used of the copy.
    def copy_begin(self, original):
        self._name, self._cycles, self._timestamp = original.name, original.cycles, original.timestamp
        names = [name for name in ("cpu_id",) if name in original.keys()]
        self._fields = {scope: {} for scope in event._CTF_SCOPES}
        self._fields[event._CTF_SCOPES[-2]] = {name: original[name] for name in names}

    event.Event._copy_bt_event = copy_begin

    # It ends at a soft interrupt that began before the trace, and was asked for again meanwhile.
    end_soft = irq.IrqStateProvider._process_softirq_exit

    def end_begun(self, event):
        pending = self._get_cpu(event["cpu_id"]).current_softirqs.get(event["vec"])
        if not pending or pending[0].begin_ts is not None:
            end_soft(self, event)

    irq.IrqStateProvider._process_softirq_exit = end_begun

    # It asks each provider about each event. Which of them want an event is known from its name.
    wanting = {}

    def process(self, event):
        name = event.name
        if name not in wanting:
            wanting[name] = [callback for provider in self._state_providers if (callback := wanted(provider._cbs, name))]
        for callback in wanting[name]:
            callback(event)

    # As StateProvider.process_event has it.
    def wanted(callbacks, name):
        if name in callbacks:
            return callbacks[name]
        for kind, begins in {"syscall_entry": ("sys_", "syscall_entry_"), "syscall_exit": ("exit_syscall", "syscall_exit_")}.items():
            if kind in callbacks and name.startswith(begins):
                return callbacks[kind]
        return None

    automaton.Automaton.process_event = process


arguments = sys.argv[1:]
if arguments[0] == "--mended":
    mend()
    arguments = arguments[1:]
module, function = arguments[0].split(":")
sys.argv = [module, *arguments[1:]]
getattr(importlib.import_module(f"lttnganalyses.cli.{module}"), function)()
