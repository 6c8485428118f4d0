#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs in the guest as root: `piste bench` with the tracers that need modules of the kernel, before and after these are loaded, and again, ended by
# Ctrl-C. Results and what is left are written to /tmp/out, output to /tmp/out/log. peers judges them.
tree=/tmp/piste out=/tmp/out modules=$out/modules tracing=/sys/kernel/tracing
export PATH=$tree/build/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LD_LIBRARY_PATH=$tree/build/lib HOME=/root LC_ALL=C.UTF-8 TMPDIR=/tmp/bench
exec >$out/log 2>&1
set -x
mkdir -p $TMPDIR
cd /tmp || exit 1

# Everything that piste bench leaves as it was: files, what tracefs has, modules with their users, processes.
state() {
	ls -A $TMPDIR $tracing/instances
	cat $tracing/dynamic_events $tracing/uprobe_events
	awk '{ print $1, $3 }' /proc/modules | sort
	cat /proc/sys/kernel/kptr_restrict /proc/sys/debug/kprobes-optimization
	for name in lttng sysdig stap piste calls; do pgrep -l $name | cut -d' ' -f2; done
}

# interrupted PEER PROCESS: ends piste bench with Ctrl-C while a process of that name runs.
interrupted() {
	local bench waited=0
	# A program in the background of a script ignores Ctrl-C otherwise.
	env --default-signal=INT piste bench "$1" &
	bench=$!
	until pgrep -x "$2"; do
		if [ $((waited += 1)) -gt 600 ]; then
			kill -INT $bench
			wait $bench
			return
		fi
		sleep 0.2
	done
	kill -INT $bench
	wait $bench
	echo "$1 $?" >>$out/interrupted
}

state >$out/state-unloaded-before
piste --json bench --quick user_events lttng-kernel sysdig systemtap >$out/unloaded
state >$out/state-unloaded-after

home=/lib/modules/$(uname -r)
mkdir -p "$home/extra"
cp $modules/*.ko "$home/extra/"
touch "$home/modules.order" "$home/modules.builtin"
depmod
names=("$modules"/lttng-{ring-buffer,counter}-*.ko)
names=("${names[@]##*/}")
modprobe -a scap "${names[@]%.ko}"

# SystemTap's module was compiled on the host.
systemtap=$(sed -n 's/.*lab.systemtap=\([^ ]*\).*/\1/p' /proc/cmdline)
ln -s "$(readlink "$systemtap/headers")" "$home/build"
export SYSTEMTAP_DIR=$systemtap SYSTEMTAP_RUNTIME=$systemtap/runtime

state >$out/state-loaded-before
piste --json bench --quick lttng-kernel sysdig systemtap >$out/loaded
state >$out/state-loaded-after
interrupted lttng-kernel lttng-sessiond
interrupted sysdig sysdig
interrupted systemtap stapio
state >$out/state-interrupted-after
dmesg | grep -aE 'BUG|WARNING|Oops|Call Trace' | head -n 20 >$out/complaints
