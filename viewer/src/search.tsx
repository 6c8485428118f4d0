// SPDX-License-Identifier: MIT OR Apache-2.0
// The search bar of the timeline: finds pieces by their names and events by their fields, goes from match to match, and tells the overview where
// they are. The server counts matches in columns; where the next one is, it is asked again, about one column.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Shown } from "./address";
import * as api from "./api";
import { useCommands } from "./commands";
import type { Editor } from "./editor";
import { tidOf } from "./events";
import { FilterField } from "./filterfield";
import { type PageProps, revealed } from "./places";

/** The overview marks so many places at most. */
const COLUMNS = 1024;
const EVENTS_MAX = 1000;
/** A search over events has so many parts at most, since each takes a while to begin. */
const PARTS_MAX = 16;
/** As long a part should take; the next one is longer by this factor at most. */
const PART_MS = 1000;
const PART_GROWTH_MAX = 4;
/** Nobody types that slowly in the middle of a word. */
const PAUSE_MS = 250;

interface Props extends PageProps {
	/** Another one whenever the recording's timeline has grown. */
	grown: string;
	/** Where matches are, in ns. */
	mark: (times: number[]) => void;
}

/** What is known of the matches. */
interface Answer {
	said: string;
	/** Of names: how many are in each column of the recording. */
	columns: number[];
}

const count = (number: number) => number.toLocaleString("en-US");

export function SearchBar({ recording, origin, whole, lanes, shown, show, grown, mark }: Props) {
	const { find, by } = shown;
	const [isOpen, setOpen] = useState(find !== "");
	const [typed, type] = useState(find);
	const [answer, setAnswer] = useState<Answer | null>(null);
	const [problem, setProblem] = useState<string | null>(null);
	const [moved, setMoved] = useState("");
	const input = useRef<HTMLInputElement>(null);
	const editor = useRef<Editor>(null);
	const moving = useRef<AbortController | null>(null);
	const told = useRef(mark);
	told.current = mark;

	const [begin, end] = [Math.floor(whole.begin), Math.ceil(whole.end) + 1];
	const time = (ns: number) => origin + BigInt(ns);
	const ns = (text: string) => Number(BigInt(text) - origin);

	// "Back" may show another search.
	useEffect(() => {
		type(find);
		if (find) setOpen(true);
	}, [find]);
	useEffect(() => {
		if (by !== "names" || typed === find) return;
		const timer = setTimeout(() => show({ find: typed.trim() ? typed : "" }), PAUSE_MS);
		return () => clearTimeout(timer);
	}, [typed, find, by, show]);
	/** Part by part, since all events of a large trace take long. Parts become longer as long as they take less than a second. */
	const searchEvents = async (signal: AbortSignal) => {
		const times: number[] = [];
		let length = (end - begin) / PARTS_MAX;
		for (let at = begin; at <= end; ) {
			const last = Math.min(end, Math.floor(at + length));
			const began = performance.now();
			const room = EVENTS_MAX - times.length;
			const wanted = { begin: time(at), end: time(last), filter: find, limit: Math.max(1, room) };
			const { events, next } = await api.events(recording, wanted, signal);
			times.push(...events.slice(0, room).map((event) => ns(event.time_ns)));
			told.current([...times]);
			const number = count(times.length);
			if (next !== null || events.length > room) {
				const said = `more than ${number} found; the overview marks the first ${number}`;
				setAnswer({ said, columns: [] });
				return;
			}
			const all = times.length === 0 ? "Nothing found" : `${number} found`;
			const share = Math.floor((100 * (last - begin)) / (end - begin));
			setAnswer({ said: last < end ? `${all} in the first ${share} %, searching…` : all, columns: [] });
			at = last + 1;
			length *= Math.min(PART_GROWTH_MAX, Math.max(1, PART_MS / (performance.now() - began)));
		}
	};
	useEffect(() => {
		const controller = new AbortController();
		moving.current?.abort();
		setAnswer(null);
		setProblem(null);
		setMoved("");
		told.current([]);
		if (!find.trim()) return;
		const failed = (error: Error) => {
			if (!controller.signal.aborted) setProblem(error.message);
		};
		if (by === "names") {
			const wanted = { text: find, begin: time(begin), end: time(end), columns: COLUMNS };
			api.search(recording, wanted, controller.signal).then((found) => {
				const width = (end - begin) / COLUMNS;
				told.current(found.columns.flatMap((some, column) => (some > 0 ? [begin + (column + 0.5) * width] : [])));
				const said =
					found.count === 0 ? "Nothing found" : `${found.is_cut ? "more than " : ""}${count(found.count)} found`;
				setAnswer({ said, columns: found.columns });
			}, failed);
		} else {
			searchEvents(controller.signal).catch(failed);
		}
		return () => controller.abort();
		// Again whenever there is more of it.
	}, [recording, origin, begin, end, find, by, grown]);
	useEffect(
		() => () => {
			moving.current?.abort();
			told.current([]);
		},
		[],
	);

	/** The match of a name beside a place, in a direction. */
	const beside = async (direction: "next" | "previous", from: Key, columns: number[], signal: AbortSignal) => {
		// The first time of a column: the server's columns are as exact.
		const edge = (column: number) =>
			begin + Number((BigInt(end - begin) * BigInt(column) + BigInt(COLUMNS - 1)) / BigInt(COLUMNS));
		const isNext = direction === "next";
		const own = Math.min(COLUMNS - 1, Math.max(0, Math.floor(((from.at - begin) * COLUMNS) / (end - begin))));
		// The own column may have matches only on the other side; the next one that has any has it.
		for (let column = own; column >= 0 && column < COLUMNS; column += isNext ? 1 : -1) {
			if (columns[column] === 0) continue;
			const isOwn = column === own;
			const found = await api.search(
				recording,
				{
					text: find,
					begin: time(isNext && isOwn ? Math.max(from.at, begin) : edge(column)),
					end: time(!isNext && isOwn ? Math.min(from.at, end) : edge(column + 1)),
					columns: 1,
					after: isNext && isOwn ? from.lane : null,
					before: !isNext && isOwn ? from.lane : null,
				},
				signal,
			);
			const place = isNext ? found.first : found.last;
			if (place) return { at: ns(place.begin_ns), lane: place.lane };
		}
		return null;
	};
	const besideEvent = async (direction: "next" | "previous", { at }: Key, signal: AbortSignal) => {
		const range =
			direction === "next" ? { begin: time(at + 1), end: time(end) } : { begin: time(begin), end: time(at - 1) };
		const wanted = { ...range, filter: find, limit: 1, last: direction === "previous" };
		const event = (await api.events(recording, wanted, signal)).events[0];
		if (!event) return null;
		const tid = tidOf(event);
		const lane = (tid ? lanes?.ofThread(tid) : undefined) ?? lanes?.ofCpu(event.cpu);
		return { at: ns(event.time_ns), lane: lane?.id ?? null };
	};
	const move = async (direction: "next" | "previous") => {
		if (!answer || !lanes) return;
		moving.current?.abort();
		const controller = new AbortController();
		moving.current = controller;
		const { signal } = controller;
		const look = (from: Key) =>
			by === "names" ? beside(direction, from, answer.columns, signal) : besideEvent(direction, from, signal);
		try {
			setMoved("searching…");
			let found = await look(startOf(shown, whole, direction));
			const isAround = !found;
			// Around the end of the recording.
			found ??= await look({ at: direction === "next" ? begin - 1 : end, lane: null });
			if (signal.aborted) return;
			setMoved(!found ? "" : isAround ? `continued from the ${direction === "next" ? "beginning" : "end"}` : "");
			if (found) show(revealed(found.lane, found.at, shown, whole, lanes));
		} catch (error) {
			if (!signal.aborted) setProblem((error as Error).message);
		}
	};

	const submit = (text: string, isShift: boolean) => {
		if (text.trim() !== find.trim()) show({ find: text });
		else void move(isShift ? "previous" : "next");
	};
	const close = () => {
		setOpen(false);
		show({ find: "" });
	};
	const focus = () => {
		setOpen(true);
		// Once it is there.
		requestAnimationFrame(() => (by === "names" ? input : editor).current?.select());
	};
	useCommands({
		search: focus,
		...(isOpen && answer && { "next-match": () => void move("next"), "previous-match": () => void move("previous") }),
	});
	if (!isOpen) return null;
	return (
		<search class="find">
			<select
				aria-label="Search in"
				value={by}
				onChange={(event) => show({ by: event.currentTarget.value as Shown["by"], find: "" })}
			>
				<option value="names">Names</option>
				<option value="fields">Fields of events</option>
			</select>
			{by === "names" ? (
				<input
					ref={input}
					type="search"
					spellcheck={false}
					autocomplete="off"
					aria-label="Search"
					placeholder="System calls, spans, threads, interrupts"
					value={typed}
					onInput={(event) => type(event.currentTarget.value)}
					onKeyDown={(event) => {
						if (event.key === "Escape") {
							event.preventDefault();
							event.currentTarget.blur();
							close();
						} else if (event.key === "Enter") {
							event.preventDefault();
							submit(typed, event.shiftKey);
						}
					}}
				/>
			) : (
				<FilterField
					{...{ recording, lanes, editor }}
					label="Search"
					placeholder={'ret < 0 && $comm == "python3"'}
					text={find}
					type={type}
					submit={submit}
					leave={close}
				/>
			)}
			<button type="button" disabled={!answer} title="Previous match (Shift-N)" onClick={() => void move("previous")}>
				◂ Previous
			</button>
			<button type="button" disabled={!answer} title="Next match (N)" onClick={() => void move("next")}>
				Next ▸
			</button>
			<span class="faint" role="status">
				{find && !problem && (answer ? [answer.said, moved].filter(Boolean).join(", ") : "Searching…")}
			</span>
			{problem && (
				<span class="wrong" role="alert">
					{problem}
				</span>
			)}
			<span class="room" />
			<button type="button" aria-label="Close search" title="Close (Esc)" onClick={close}>
				×
			</button>
		</search>
	);
}

interface Key {
	at: number;
	lane: number | null;
}

/** Where to go on: at the selection if it is seen, or else at the side of what is seen. */
function startOf(
	{ selected, span }: Shown,
	whole: { begin: number; end: number },
	direction: "next" | "previous",
): Key {
	const seen = span ?? whole;
	if (selected && selected.at >= seen.begin && selected.at <= seen.end) {
		return { at: Math.round(selected.at), lane: selected.lane };
	}
	return { at: direction === "next" ? Math.floor(seen.begin) - 1 : Math.ceil(seen.end), lane: null };
}
