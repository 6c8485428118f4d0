// SPDX-License-Identifier: MIT OR Apache-2.0
// Queries that were run, kept in this browser, and names as SQL spells them.

const STORE = "piste.queries";
const KEPT_MAX = 50;

/** The last queries, newest first. */
export function kept(): string[] {
	try {
		const found: unknown = JSON.parse(localStorage.getItem(STORE) ?? "[]");
		return Array.isArray(found) ? found.filter((sql) => typeof sql === "string").slice(0, KEPT_MAX) : [];
	} catch {
		return [];
	}
}

/** Keeps a query as the newest; returns all of them. */
export function keep(sql: string): string[] {
	const all = [sql, ...kept().filter((other) => other !== sql)].slice(0, KEPT_MAX);
	try {
		localStorage.setItem(STORE, JSON.stringify(all));
	} catch {
		// The browser may be set to store nothing; the query still runs.
	}
	return all;
}

export function forget(): string[] {
	try {
		localStorage.removeItem(STORE);
	} catch {
		// As above.
	}
	return [];
}

/** Keywords of SQL that occur as names. */
const WORDS = new Set(["end", "order", "group", "select", "from", "table", "user", "case", "when", "all", "index"]);

export const quoted = (name: string): string =>
	/^[A-Za-z_]\w*$/.test(name) && !WORDS.has(name.toLowerCase()) ? name : `"${name.replaceAll('"', '""')}"`;

/** Tables computed from all events; every other table has the events of one name. */
export const COMPUTED: readonly string[] = [
	"events",
	"threads",
	"processes",
	"sched_slices",
	"thread_states",
	"cpu_waits",
	"syscalls",
	"irqs",
	"io_requests",
	"spans",
	"streams",
	"findings",
];

/** Queries to start with. */
export const EXAMPLES: readonly (readonly [title: string, sql: string])[] = [
	[
		"The longest system calls",
		"SELECT begin_ns, duration_ns, name, ret, path, comm, tid\nFROM syscalls\nORDER BY duration_ns DESC LIMIT 100",
	],
	["Events by name", "SELECT name, count(*) AS events\nFROM events\nGROUP BY name ORDER BY events DESC"],
	[
		"What threads waited for",
		"SELECT comm, cause, syscall, count(*) AS waits, sum(duration_ns) AS total_ns\nFROM thread_states\nWHERE state = 'blocked'\nGROUP BY comm, cause, syscall ORDER BY total_ns DESC LIMIT 100",
	],
	[
		"The longest waits for a CPU, and which thread had it",
		"SELECT begin_ns, duration_ns, comm, tid, why, by_comm, by_tid, by_ns\nFROM cpu_waits\nORDER BY duration_ns DESC LIMIT 100",
	],
	[
		"Interrupts by name",
		"SELECT kind, name, count(*) AS irqs, sum(duration_ns) AS total_ns, max(duration_ns) AS longest_ns\nFROM irqs\nGROUP BY kind, name ORDER BY total_ns DESC",
	],
	[
		"The slowest requests to devices",
		"SELECT issued_ns, latency_ns, queue_ns, device_name, operation, bytes, path, comm, tid\nFROM io_requests\nORDER BY latency_ns DESC LIMIT 100",
	],
];

/** What each thread did in a range: a query to go on from. */
export const ofRange = (begin: bigint, end: bigint): string =>
	`SELECT tid, comm, state, cause, syscall, count(*) AS pieces,
  sum(least(end_ns, ${end}) - greatest(begin_ns, ${begin})) AS time_ns
FROM thread_states
WHERE end_ns > ${begin} AND begin_ns < ${end} AND state IN ('running', 'runnable', 'blocked', 'stopped')
GROUP BY tid, comm, state, cause, syscall ORDER BY time_ns DESC LIMIT 1000`;
