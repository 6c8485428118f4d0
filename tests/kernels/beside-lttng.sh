#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs in the guest as root: records one load with LTTng and with Piste at once, then with each alone. The traces are copied to /tmp/out/traces,
# output goes to /tmp/out/log. beside-lttng judges them.
tree=/tmp/piste out=/tmp/out traces=/tmp/traces modules=/tmp/lttng-modules
export PATH=$tree/build/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LD_LIBRARY_PATH=$tree/build/lib HOME=/root LC_ALL=C.UTF-8
mkdir -p /tmp/out/traces $traces $modules
exec >$out/log 2>&1
set -x
cd /tmp || exit 1

# LTTng's daemon loads modules as modprobe does.
home=/lib/modules/$(uname -r)
mkdir -p "$home/extra"
cp $out/modules/*.ko "$home/extra/"
touch "$home/modules.order" "$home/modules.builtin"
depmod
lttng-sessiond --daemonize

tracepoints='sched_switch,sched_waking,sched_wakeup,sched_process_fork,sched_process_exit'
interrupts='irq_handler_entry,irq_handler_exit'

# Names of threads tell the load from the rest.
lttng_session() {
	lttng create "$1" --output="$traces/lttng-$1"
	lttng enable-channel -k --subbuf-size=1M --num-subbuf=32 all
	lttng enable-event -k -c all --syscall --all
	lttng enable-event -k -c all "$tracepoints,$interrupts,irq_softirq_entry,irq_softirq_exit,irq_softirq_raise"
	for context in "${@:2}"; do lttng add-context -k -c all -t "$context"; done
}

piste_session() {
	piste create "$1" -o "$traces/piste-$1"
	piste enable-channel -k all --subbuf-size 512K --num-subbuf 64
	piste enable-event -k -c all --syscall '*'
	piste enable-event -k -c all "$tracepoints,$interrupts,softirq_entry,softirq_exit,softirq_raise"
}

load() {
	dd if=/dev/zero of=/dev/null bs=1 count=20000
	ls -lR /etc >/dev/null
	dd if=/dev/zero of=/mnt/file bs=64k count=64 conv=fsync
	for _ in {1..20}; do /bin/true; done
}

load
lttng_session both tid procname
piste_session both
piste start both
lttng start both
load
lttng stop both
piste stop both
lttng destroy both
piste destroy both

lttng_session without
lttng start without
load
lttng destroy without

lttng_session tid tid
lttng start tid
load
lttng destroy tid

piste_session alone
piste start alone
load
piste destroy alone

dmesg | grep -aE 'BUG|WARNING|Oops|Call Trace' | head -n 20
cp -r $traces/. $out/traces/
