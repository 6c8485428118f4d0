// SPDX-License-Identifier: MIT OR Apache-2.0
// The events of a range, one per row, as `piste view` prints them.
import { useEffect, useState } from "preact/hooks";
import * as api from "./api";
import { FilterField } from "./filterfield";
import { opened, type PageProps } from "./places";
import { Prose } from "./prose";
import type { Lanes } from "./rows";
import { shownText } from "./tables";
import { duration, moment } from "./time";
import { Waiting } from "./waiting";

/** Events of a page. */
const PAGE = 500;
const EXAMPLES = ['name == "sched_switch"', "ret < 0", '$comm =~ "python*"', "$cpu == 0"];

export function EventsPage({ recording, origin, whole, lanes, shown, show }: PageProps) {
	const { range, where, at } = shown;
	const [typed, type] = useState(where);
	const [page, setPage] = useState<api.EventPage | null>(null);
	const [problem, setProblem] = useState<string | null>(null);
	const [isTurning, setTurning] = useState<AbortController | null>(null);
	const from = Math.floor(range?.begin ?? whole.begin);
	const until = Math.ceil(range?.end ?? whole.end);
	const begin = Math.min(Math.max(from, at ?? from), until);
	useEffect(() => type(where), [where]);
	useEffect(() => {
		const controller = new AbortController();
		setPage(null);
		setProblem(null);
		setTurning(null);
		const wanted = { begin: origin + BigInt(begin), end: origin + BigInt(until), filter: where, limit: PAGE };
		api.events(recording, wanted, controller.signal).then(setPage, (error) => {
			if (!controller.signal.aborted) setProblem(String(error.message));
		});
		return () => controller.abort();
	}, [recording, origin, begin, until, where]);
	useEffect(() => () => isTurning?.abort(), [isTurning]);

	const ns = (text: string) => Number(BigInt(text) - origin);
	const next = page?.next ? ns(page.next) : null;
	// The page before this one begins PAGE events earlier: ask for those, and show from the first of them.
	const earlier = () => {
		const controller = new AbortController();
		setTurning(controller);
		const wanted = { begin: origin + BigInt(from), end: origin + BigInt(begin - 1), filter: where, limit: PAGE };
		api.events(recording, { ...wanted, last: true }, controller.signal).then(
			({ events }) => {
				const first = events.length < PAGE ? undefined : events[0];
				show({ at: first ? ns(first.time_ns) : null });
			},
			(error) => {
				if (controller.signal.aborted) return;
				setTurning(null);
				setProblem(String(error.message));
			},
		);
	};
	const open = (event: api.Event) =>
		show({ ...opened({ at: ns(event.time_ns), tid: tidOf(event), cpu: event.cpu }, shown, whole, lanes), range });
	const submit = (text: string) => show({ where: text.trim(), at: null });
	const events = page?.events ?? [];
	const [first, last] = [events[0], events.at(-1)];
	return (
		<section class="sheet" aria-label="Events" aria-busy={!page && !problem}>
			<form
				class="bar"
				onSubmit={(event) => {
					event.preventDefault();
					submit(typed);
				}}
			>
				<h2>Events</h2>
				<FilterField
					{...{ recording, lanes }}
					label="Filter events"
					placeholder={'Filter: name == "sched_switch" && $cpu == 0'}
					text={where}
					type={type}
					submit={submit}
				/>
				<button type="submit">Filter</button>
				<span class="chip">
					{range
						? `${duration(range.end - range.begin)} from ${moment(range.begin, 1e3)}`
						: `whole trace, ${duration(whole.end - whole.begin)}`}
					{range && (
						<button
							type="button"
							title="Show the whole trace"
							aria-label="Show the whole trace"
							onClick={() => show({ range: null, at: null })}
						>
							×
						</button>
					)}
				</span>
			</form>
			<div class="bar">
				<button type="button" disabled={begin <= from || isTurning !== null} onClick={earlier}>
					◂ Earlier
				</button>
				<button type="button" disabled={next === null || next > until} onClick={() => show({ at: next })}>
					Later ▸
				</button>
				<span class="faint" role="status">
					{isTurning ? (
						"Looking for earlier events…"
					) : !page && !problem ? (
						<Waiting path={`${recording}/events`}>Reading events…</Waiting>
					) : first && last ? (
						`${events.length.toLocaleString("en-US")} ${events.length === 1 ? "event" : "events"}, ${moment(ns(first.time_ns), 1)} to ${moment(ns(last.time_ns), 1)}${next === null ? "; no later events" : ""}`
					) : (
						""
					)}
				</span>
			</div>
			<div class="scroll" key={`${begin} ${where}`}>
				{problem && (
					<pre role="alert" class="said">
						{problem}
					</pre>
				)}
				{page?.notes.map((note) => (
					<p key={note} class="faint">
						<Prose text={note} />
					</p>
				))}
				{page?.left_out && <p role="alert">More events happened at this time than a page can show.</p>}
				{page && events.length === 0 && (
					<p>{where ? "No events in this range satisfy the filter." : "There are no events in this range."}</p>
				)}
				{(problem || (page && events.length === 0)) && where && (
					<p class="faint">
						Examples of filters:{" "}
						{EXAMPLES.map((example) => (
							<button key={example} type="button" class="link code" onClick={() => show({ where: example, at: null })}>
								{example}
							</button>
						))}
					</p>
				)}
				{events.length > 0 && (
					<table class="events">
						<thead>
							<tr>
								<th scope="col" class="number">
									Time
								</th>
								<th scope="col" class="number">
									Since previous
								</th>
								<th scope="col" class="number">
									CPU
								</th>
								<th scope="col">Thread</th>
								<th scope="col">Event</th>
								<th scope="col">Fields</th>
							</tr>
						</thead>
						<tbody>
							{events.map((event, index) => {
								const before = events[index - 1];
								const since = before ? Number(BigInt(event.time_ns) - BigInt(before.time_ns)) : null;
								return (
									<tr key={index}>
										<td class="number">
											<button type="button" class="link" title="Show in the timeline" onClick={() => open(event)}>
												{moment(ns(event.time_ns), 1)}
											</button>
										</td>
										<td class="number faint">{since === null ? "" : duration(since)}</td>
										<td class="number">{event.cpu}</td>
										<td>{thread(event, lanes)}</td>
										<td>{event.name}</td>
										<td class="fields">
											{Object.entries(event.payload ?? {}).map(([name, value]) => (
												<span key={name}>
													<b>{name}</b>={shownText(said(value))}
												</span>
											))}
										</td>
									</tr>
								);
							})}
						</tbody>
					</table>
				)}
			</div>
		</section>
	);
}

/** The thread ID of an event, from its contexts. */
export function tidOf({ event_context, packet_context }: api.Event): number | undefined {
	const contexts = { ...packet_context, ...event_context };
	const tid = contexts.tid ?? contexts.vtid;
	return typeof tid === "number" ? tid : undefined;
}

function thread(event: api.Event, lanes: Lanes | null) {
	const tid = tidOf(event);
	if (tid === undefined) return "";
	const name = tid === 0 ? "idle" : lanes?.ofThread(tid)?.name;
	return (
		<>
			{name} <small>{tid}</small>
		</>
	);
}

/** A value of a field: of enumerations the labels. Numbers from 2^63 on, which are text in JSON, are addresses of the kernel. */
function said(value: unknown): string {
	if (typeof value === "string" && /^\d{19,20}$/.test(value) && BigInt(value) >= 2n ** 63n) {
		return `0x${BigInt(value).toString(16)}`;
	}
	if (typeof value !== "object" || value === null) return String(value);
	const { value: number, labels, symbol } = value as { value?: unknown; labels?: string[]; symbol?: string };
	if (Array.isArray(labels)) return labels.length > 0 ? labels.join(" | ") : String(number);
	return symbol ?? JSON.stringify(value);
}
