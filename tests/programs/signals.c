/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * signals SECONDS: a main loop records while two timers interrupt it 20,000 times a second each. Each handler records, and the second
 * one interrupts the first. Prints how often each of the three has recorded.
 */
#include <piste/tracepoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PERIOD_NS 50000

PISTE_EVENT(signals, loop, (uint64_t, number))
PISTE_EVENT(signals, handler, (uint64_t, number), (const char *, text))
PISTE_EVENT(signals, nested, (uint64_t, number))

static volatile uint64_t handled, nested;

static void handle(int signal)
{
	(void)signal;
	piste(signals, handler, handled, "from a handler");
	handled = handled + 1;
}

static void handle_nested(int signal)
{
	(void)signal;
	piste(signals, nested, nested);
	nested = nested + 1;
}

static timer_t start_timer(int signal, void (*handler)(int), long first_ns)
{
	struct sigaction action = {0};
	struct sigevent event = {0};
	struct itimerspec period = {{0, PERIOD_NS}, {0, first_ns}};
	timer_t timer;

	action.sa_handler = handler;
	sigaction(signal, &action, NULL);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = signal;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &period, NULL) != 0)
		abort();
	return timer;
}

int main(int argc, char **argv)
{
	time_t seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
	struct timespec now, end;
	timer_t timers[2];
	sigset_t both;
	uint64_t number = 0;

	timers[0] = start_timer(SIGRTMIN, handle, 10000);
	timers[1] = start_timer(SIGRTMIN + 1, handle_nested, 13000);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		/* Enough of them to be interrupted within, not so many that reading the trace takes minutes. */
		for (int burst = 0; burst < 20; burst++, number++)
			piste(signals, loop, number);
		for (volatile int idle = 0; idle < 40000; idle++)
			;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	sigemptyset(&both);
	sigaddset(&both, SIGRTMIN);
	sigaddset(&both, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &both, NULL);
	timer_delete(timers[0]);
	timer_delete(timers[1]);
	printf("%llu %llu %llu\n", (unsigned long long)number, (unsigned long long)handled, (unsigned long long)nested);
	return 0;
}
