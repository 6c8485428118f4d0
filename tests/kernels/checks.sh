#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs in the guest as root: each check is a function that records something. Its output is written to /tmp/out/log/CHECK, its traces to
# /tmp/out/traces/CHECK*, and a line with name, status and seconds to /tmp/out/status. judge.py judges them.
tree=/tmp/piste out=/tmp/out programs=/tmp/programs traces=/tmp/traces tracing=/sys/kernel/tracing
export PATH=$tree/build/bin:$programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LD_LIBRARY_PATH=$tree/build/lib HOME=/root LC_ALL=C.UTF-8
cd /tmp || exit 1

seconds_max=120
skipped=77

doctor() { piste doctor --json; }

presets() {
	local preset failed=0
	for preset in sched io syscalls net mem irq ltt full; do
		# From a local disk, over a local socket.
		piste record --preset $preset -v -o $traces/presets-$preset -- bash -c \
			'dd if=/dev/zero of=/mnt/file bs=64k count=16 oflag=dsync 2>/dev/null; echo x >/dev/udp/127.0.0.1/9; ls / >/dev/null' || failed=1
	done
	return $failed
}

default() { piste record -o $traces/default -- bash -c 'ls / >/dev/null; cat /etc/hostname; sleep 0.05'; }

syscall() { piste record --no-user --syscall 'openat,close,read' -o $traces/syscall -- cat /etc/hostname; }

# What arguments of system calls point to.
names() {
	piste record --no-user --syscall 'execve,openat' -o $traces/names -- cat /etc/hostname &&
		piste record --no-user --syscall openat --filter 'filename =~ "/etc/host*"' -o $traces/names-filter -- cat /etc/passwd /etc/hostname &&
		piste strace -e openat -o $out/names-strace cat /etc/hostname
}

filter() {
	piste record --no-user -k sched_switch --filter 'prev_comm == "sleep"' -o $traces/filter -- bash -c 'sleep 0.1; cat /etc/hostname'
}

stacks() { piste record --no-user -k sched_switch --callstack kernel,user:8 -o $traces/stacks -- bash -c 'sleep 0.05; greet'; }

# probes NAME OPTION...: records programs with the probes of these options.
probes() {
	local name=$1
	shift
	piste create "$name" -o "$traces/$name" && piste enable-event -k "$@" && piste start &&
		{ greet; throws; cat /etc/hostname; } && piste destroy
}

kprobe() { probes kprobe --kprobe 'do_sys_openat2 file=+0(%si):ustring' --name opened; }

# shellcheck disable=SC2016 # The dollar is for the probe.
kretprobe() { probes kretprobe --kretprobe 'do_sys_openat2 fd=$retval:s32' --name opened_ret; }

# A function's address is as good as its name; what the kernel does not take is refused.
kprobe_at() {
	local address protected refused place
	address=0x$(awk '$3 == "do_sys_openat2" { print $1; exit }' /proc/kallsyms)
	protected=0x$(awk '$3 == "exc_int3" || $3 == "do_int3" { print $1; exit }' /proc/kallsyms)
	piste create kprobe-refused || return 1
	for place in "$address+1" 0x1000 "$protected"; do
		refused=$(piste enable-event -k --kprobe "$place" 2>&1) && return 1
		echo "$refused" | tee -a $out/kprobe-refused
	done
	piste destroy && probes kprobe-at --kprobe "$address file=+0(%si):ustring"
}

# An event of tracefs whose field is the text that a system call's argument points to.
# shellcheck disable=SC2016
eprobe() {
	if ! grep -q attached-event $tracing/README; then
		echo "skipped: this kernel has no event probes"
		return $skipped
	fi
	echo 'e:lab/opened syscalls/sys_enter_openat file=+0($filename):ustring' >>$tracing/dynamic_events || return
	piste record --no-user -k lab:opened -o $traces/eprobe -- cat /etc/hostname
	local status=$?
	echo '-:lab/opened' >>$tracing/dynamic_events
	return $status
}

# shellcheck disable=SC2016
uprobe() {
	probes uprobe --uprobe "$programs/greet:greet name=+0(%di):string times=%si:s32" --name greet &&
		probes uprobe-ret --uretprobe "$programs/greet:greet length=\$retval:s32" --name greeted
}

usdt() { probes usdt --usdt libstdc++.so.6:libstdcxx:throw --usdt libstdc++.so.6:libstdcxx:catch; }

snapshot() {
	piste record --snapshot-on exit -o $traces/snapshot-exit -- ls / || return
	piste record -a --snapshot-on SIGUSR1 -d 3s -o $traces/snapshot-signal &
	local recording=$!
	sleep 1.5
	kill -USR1 $recording
	wait $recording
}

rotate() {
	piste create rotate -o $traces/rotate && piste enable-event -k sched_switch && piste enable-event 'lab:*' && piste start &&
		ticks 2 1000 && piste rotate && ticks 2 1000 && piste rotate && ls / >/dev/null && piste destroy
}

hidden() {
	"$programs/selection" --nocapture --exact threads::nothing_of_others_is_missing_while_it_changes_who_is_recorded_and_hidden
}

hotplug() {
	"$programs/hotplug" --nocapture || return
	piste record -a --no-user --preset sched -d 2s -o $traces/hotplug &
	local recording=$! switch=/sys/devices/system/cpu/cpu1/online
	sleep 0.5
	echo 0 >$switch && sleep 0.3
	echo 1 >$switch
	wait $recording
}

user() {
	piste record -u 'lab:*' -o $traces/user-kernel -- ticks 8 5000 || return
	piste record --no-kernel -u 'lab:*' -o $traces/user-killed -- ticks 3 20000 kill
	[ $? = 137 ]
}

compat() {
	compat_runs || return $skipped
	piste record --no-user --preset syscalls -o $traces/compat -- "$programs/compat" &&
		piste record --no-user --syscall 'getpid,openat,getuid' -o $traces/compat-some -- "$programs/compat" &&
		piste record --no-user -o $traces/compat-moved -- taskset -c 0 "$programs/compat" 1
}

compat_runs() {
	"$programs/compat" && return
	echo "skipped: this kernel runs no 32-bit programs"
	return 1
}

inversion() {
	piste record -a --no-user --preset sched,syscalls -o $traces/inversion -- inversion && cp threads $out/inversion-threads
}

softirq() {
	piste record -a --no-user --preset sched,irq -o $traces/softirq -- bash -c \
		'for i in {1..200}; do echo x >/dev/udp/127.0.0.1/9; done; dd if=/dev/zero of=/mnt/file bs=64k count=64 conv=fsync 2>/dev/null; sleep 0.3'
}

# The kernel measures its own latency, and piste records what delayed it.
timerlat() {
	local own=$tracing/instances/timerlat
	if ! grep -qw timerlat $tracing/available_tracers; then
		echo "skipped: this kernel has no timerlat tracer"
		return $skipped
	fi
	mkdir $own && echo timerlat >$own/current_tracer || return
	piste record -a --no-user -k 'osnoise:*' -d 1s -o $traces/timerlat
	local status=$?
	cat $own/trace >$out/timerlat
	echo nop >$own/current_tracer
	rmdir $own
	return $status
}

# Each loop of piste latency. Times mean nothing here.
latency() {
	local loop
	local loops=('npt --loops 20000' 'gaps --loops 20000' 'timer --loops 20 --load cpu,fork,network' 'wakeup --loops 20 --policy fifo:80')
	# There is no compiler for events of tracers.
	loops+=('event --loops 20000 --tracer none --policy fifo:80')
	for loop in "${loops[@]}"; do
		# shellcheck disable=SC2086 # Words.
		piste --json latency $loop --cpus 0 >"$out/latency-${loop%% *}" || return
	done
}

# All that piste latency --prepare may change.
settings() {
	local file
	for file in /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask /sys/fs/cgroup/cgroup.subtree_control; do
		echo "$file $(cat "$file")"
	done
	find /sys/fs/cgroup -mindepth 1 -type d
}

# The machine is prepared while it measures, and as before afterwards, also when piste and what restores it are killed.
latency_prepare() {
	local last=$(($(nproc) - 1)) pid
	settings >$out/settings-before
	piste --json latency timer --loops 20 --prepare --cpus $last >$out/latency-prepared || return
	settings >$out/settings-after
	piste latency timer --duration 1h --prepare --cpus $last &
	pid=$!
	until grep -qs '^latency/' /proc/$pid/task/*/comm; do
		kill -0 $pid || return
		sleep 0.2
	done
	settings >$out/settings-during
	# Its children, too: one of them restores the machine.
	xargs kill -KILL </proc/$pid/task/$pid/children
	kill -KILL $pid
	wait $pid
	piste latency --restore && settings >$out/settings-restored
}

# The kernel measures; rtla, which reads the same samples from an instance of its own, is there before piste and longer.
latency_traced() {
	local own=$tracing/instances/beside status reader rtla
	if ! grep -qw timerlat $tracing/available_tracers; then
		echo "skipped: this kernel has no timerlat tracer"
		return $skipped
	fi
	# Up to 10 ms, in steps of 100 ns.
	rtla timerlat hist -n -c 0 -p 20000 -b 100 -E 100000 -d 1h >$out/latency-rtla &
	rtla=$!
	until grep -qs timerlat $tracing/instances/timerlat_hist/current_tracer; do
		kill -0 $rtla || return
		sleep 0.2
	done
	if ! { mkdir $own && echo timerlat >$own/current_tracer; }; then
		kill -INT $rtla
		return 1
	fi
	cat $own/trace_pipe >$out/latency-timerlat-text &
	reader=$!
	piste --json latency timerlat --loops 50 --interval 20ms --cpus 0 >$out/latency-timerlat
	status=$?
	kill -INT $rtla
	wait $rtla
	# First the reader: while somebody reads, the kernel changes no tracer.
	kill $reader
	wait $reader
	echo nop >$own/current_tracer
	rmdir $own
	[ $status = 0 ] && piste --json latency osnoise --loops 2 --warm-up 1 --duration 60s >$out/latency-osnoise
}

# Records the same events with piste and, in a separate instance, as tracefs's text.
text() {
	local own=$tracing/instances/text clock=mono event
	local events=(sched/sched_switch sched/sched_wakeup irq/irq_handler_entry irq/irq_handler_exit irq/softirq_entry irq/softirq_exit)
	grep -q tsc /sys/devices/system/clocksource/clocksource0/current_clocksource && clock=x86-tsc
	mkdir $own && echo $clock >$own/trace_clock && echo 20000 >$own/buffer_size_kb && echo 0 >$own/tracing_on || return
	for event in "${events[@]}"; do echo 1 >"$own/events/$event/enable"; done
	cat >load <<-LOAD
		echo 1 >$own/tracing_on
		ls -R /etc/init.d >/dev/null
		dd if=/dev/zero of=/mnt/file bs=64k count=32 conv=fsync 2>/dev/null
		sleep 0.2
		echo 0 >$own/tracing_on
	LOAD
	local names=("${events[@]/\//:}")
	piste record -a --no-user -k "$(IFS=,; echo "${names[*]}")" -o $traces/text -- bash load
	local status=$?
	cat $own/trace >$out/text
	cat $own/per_cpu/cpu*/stats >$out/text-stats
	rmdir $own
	return $status
}

# Runs last: prints what the other checks left behind, and the kernel's complaints.
clean() {
	piste doctor >/dev/null
	ls $tracing/instances
	cat $tracing/kprobe_events $tracing/uprobe_events
	dmesg | grep -aE 'BUG|WARNING|Oops|Call Trace|rcu.*stall|soft lockup|hard LOCKUP|blocked for more' | head -n 20
	return 0
}

run() {
	local name=$1 begin=$EPOCHREALTIME status
	# shellcheck disable=SC2163 # The function with that name.
	export -f "$name" probes compat_runs settings
	export tree out programs traces tracing skipped
	timeout -k 5 $seconds_max bash -c "$name" >"$out/log/$name" 2>&1
	status=$?
	for trace in "$traces"/*; do
		if [ -e "$trace" ]; then cp -r "$trace" $out/traces/ && rm -r "$trace"; fi
	done
	awk -v name="$name" -v status=$status -v begin="$begin" -v end="$EPOCHREALTIME" \
		'BEGIN { printf "%s %d %.1f\n", name, status, end - begin }' >>$out/status
}

mkdir -p $out/log $out/traces $traces $programs
# Copied, because files of the host are slow to map.
cp $tree/target/kernels/programs/* $programs/
mkfs.ext4 -q /dev/vda && mount /dev/vda /mnt || echo "lab: no disk"
pisted --background
while read -r check; do
	run "$check"
done <$out/checks
umount /mnt
find /run/piste -type f -name '*.log' -exec cat {} + >$out/log/pisted
