// SPDX-License-Identifier: MIT OR Apache-2.0
// The timeline with its lanes' names: what is seen of a recording, and what commands do to it.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Shown } from "./address";
import * as api from "./api";
import type { Theme } from "./colours";
import { useCommands } from "./commands";
import { Exports } from "./exports";
import { flagAt } from "./flags";
import { useHands } from "./hands";
import { GroupHeading, LanesMenu } from "./lanes_menu";
import { LaneTip } from "./lanetip";
import { Name } from "./name";
import { type Draft, laneKey, type Note } from "./notes";
import { Overview } from "./overview";
import { Painter } from "./painter";
import type { Segment } from "./path";
import { choiceOf, type LaneRow, type Lanes, type Row, seenOf } from "./rows";
import type { Known } from "./selected";
import { moment } from "./time";
import { AXIS_HEIGHT, type Scene, type Size, type Span } from "./timeline";
import { Tip } from "./tip";
import type { Wait } from "./wakes";

/** The shortest span that can be shown, in ns. */
const SPAN_MIN = 100;
/** How far beyond the ends of the recording you can move, as a share of what is visible. */
const MARGIN = 0.5;
/** As long as it is not known what is selected. */
const NOTHING = { span: null, waker: null, creator: null };

/** For one of two timelines with a common axis. */
export interface Pair {
	name: string;
	/** Beside the overview. */
	heading: ComponentChildren;
	/** What both of them cover, in times of this one. */
	reach: Span;
	/** Keys are meant for this one. */
	isActive: boolean;
	/** The pointer is on this one, or on none and this one is active. */
	isPointed: boolean;
	/** The time at which the pointer is on the other one. */
	cursor: number | null;
	points: (at: number | null) => void;
	/** Whenever it changes, the first lanes come into view. */
	home: number;
}

interface Props {
	recording: number;
	origin: bigint;
	whole: Span;
	lanes: Lanes;
	theme: Theme;
	shown: Shown;
	show: (change: Partial<Shown>, kind?: "step" | "glide") => void;
	/** It is being recorded. */
	isLive: boolean;
	/** All of it has been read. */
	isWhole: boolean;
	/** Changes whenever the recording's timeline has grown. */
	grown: string;
	failed: (why: string | null) => void;
	/** What is selected; null: it is not known yet. */
	known: Known | null;
	/** The critical path that is shown. */
	path: Segment[];
	/** The next wait that the selected thread ended. */
	wakes: Wait | null;
	/** Called with the visible lanes whenever they change. */
	sees?: ((lanes: number[]) => void) | undefined;
	/** Where a search has found something, in ns. */
	matches: readonly number[];
	notes: readonly Note[];
	/** A note is written, or an old one changed. */
	write: (note: Draft) => void;
	pair?: Pair;
}

/** What can be shown: not too close, and not far beyond what is covered. */
function within(span: Span, reach: Span): Span {
	const most = (reach.end - reach.begin) * (1 + 2 * MARGIN);
	const length = Math.min(Math.max(span.end - span.begin, SPAN_MIN), most);
	const middle = (span.begin + span.end) / 2;
	const first = reach.begin - length * MARGIN;
	const last = Math.max(first, reach.end - length * (1 - MARGIN));
	const begin = Math.min(Math.max(middle - length / 2, first), last);
	return { begin, end: begin + length };
}

const turn = <T,>(list: T[], id: T) => (list.includes(id) ? list.filter((one) => one !== id) : [...list, id]);

/** The object from before, as long as all its values are the same. */
function useSame<T extends object>(now: T): T {
	const kept = useRef(now);
	const isSame = (Object.keys(now) as (keyof T)[]).every((key) => now[key] === kept.current[key]);
	if (!isSame) kept.current = now;
	return kept.current;
}

export function Stage(props: Props) {
	const {
		recording,
		origin,
		whole,
		lanes,
		theme,
		shown,
		show,
		isLive,
		isWhole,
		grown,
		failed,
		known,
		path,
		wakes,
		sees,
		matches,
		notes,
		write,
		pair,
	} = props;
	const reach = pair?.reach ?? whole;
	const canvas = useRef<HTMLCanvasElement>(null);
	const [scroll, setScroll] = useState(0);
	const [size, setSize] = useState({ width: 0, height: 0 });
	const [isExporting, setExporting] = useState(false);

	const { selected } = shown;
	const { span: selectedSpan, waker, creator } = known ?? NOTHING;

	// An address may have any.
	const isFollowing = isLive && shown.follow;
	const span = useMemo(() => {
		const chosen = within(shown.span ?? reach, reach);
		return isFollowing ? { begin: whole.end - (chosen.end - chosen.begin), end: whole.end } : chosen;
	}, [shown.span, whole, reach, isFollowing]);
	const rows = useMemo(
		() => lanes.rows(choiceOf(shown)),
		[
			lanes,
			shown.filter,
			shown.group,
			shown.order,
			shown.height,
			shown.pinned,
			shown.open,
			shown.hidden,
			shown.hiddenGroups,
			shown.closed,
		],
	);
	const laneCount = useMemo(() => rows.filter(({ lane }) => lane).length, [rows]);
	// Not again whenever time moves.
	const menu = useMemo(() => {
		const keys = rows.flatMap((row) => (row.lane ? [] : row.key));
		return <LanesMenu shown={shown} show={show} keys={keys} />;
	}, [rows, shown.view, show]);
	const unknown = useMemo(() => lanes.unknown, [lanes]);
	const total = useMemo(() => rows.reduce((sum, row) => sum + row.height, 0), [rows]);
	const scrollMax = Math.max(0, total - (size.height - AXIS_HEIGHT));
	const top = Math.min(scroll, scrollMax);

	const chosen = useMemo(
		() => (selected ? { lane: selected.lane, span: selectedSpan, waker, creator, wakes } : null),
		[selected, selectedSpan, waker, creator, wakes],
	);
	const seen = useMemo(() => seenOf({ rows, scroll: top }, size.height - AXIS_HEIGHT), [rows, top, size.height]);
	const seenRows = useMemo(() => seen.map(({ row }) => row), [rows, seen[0]?.row, seen.length]);
	const scene = useSame<Scene>({
		span,
		ends: pair ? whole : null,
		end: isWhole ? whole.end : null,
		cursor: pair?.cursor ?? null,
		rows: seenRows,
		isFlow: shown.view === "flow",
		scroll: -(seen[0]?.top ?? 0),
		selected: chosen,
		path,
		range: shown.range,
		marks: shown.marks,
		notes,
	});
	const latest = useRef({ scene, theme, shown });
	latest.current = { scene, theme, shown };

	const tell = useRef(failed);
	tell.current = failed;
	const painter = useMemo(() => new Painter(recording, origin, (why) => tell.current(why)), [recording, origin]);
	useEffect(
		() => () => {
			painter.close();
			tell.current(null);
		},
		[painter],
	);
	const pixels = useSame<Size>({ ...size, scale: devicePixelRatio });
	useLayoutEffect(() => {
		if (pixels.width > 0) painter.show(canvas.current!, scene, theme, pixels, lanes);
	}, [painter, scene, theme, pixels, lanes]);
	useEffect(() => painter.refresh(), [painter, grown]);
	useLayoutEffect(() => {
		const element = canvas.current!;
		const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
		measure();
		const observer = new ResizeObserver(measure);
		observer.observe(element);
		return () => observer.disconnect();
	}, []);

	// The lanes of a path are pinned, so they are at the top.
	const hasPath = path.length > 0;
	useEffect(() => {
		if (hasPath) setScroll(0);
	}, [hasPath, shown.pinned]);

	const move = useCallback(
		(to: Span, follow = false) => {
			show({ span: within(to, reach), follow }, "glide");
		},
		[show, reach],
	);
	const zoom = useCallback(
		(factor: number, pointed: number) => {
			const { begin, end } = latest.current.scene.span;
			const place = isFollowing ? 1 : pointed;
			const at = begin + (end - begin) * place;
			const length = Math.max((end - begin) * factor, SPAN_MIN);
			move({ begin: at - length * place, end: at + length * (1 - place) }, isFollowing);
		},
		[move, isFollowing],
	);
	const pan = useCallback(
		(part: number) => {
			const { begin, end } = latest.current.scene.span;
			move({ begin: begin + (end - begin) * part, end: end + (end - begin) * part });
		},
		[move],
	);
	const select = useCallback((lane: number, at: number) => show({ selected: { lane, at } }), [show]);

	const fit = () => {
		const of = selectedSpan ?? shown.range ?? reach;
		const around = of === reach ? 0 : (of.end - of.begin) * 0.1;
		move({ begin: of.begin - around, end: of.end + around });
	};
	const step = async (direction: "previous" | "next") => {
		if (!selected) return;
		const at = origin + BigInt(Math.round(selected.at));
		const found = await api.piece(recording, selected.lane, at, new AbortController().signal).catch(() => null);
		const piece = found?.[direction];
		// Something else may be selected by now.
		if (!piece || latest.current.shown.selected !== selected) return;
		const begin = Number(BigInt(piece.begin_ns) - origin);
		select(selected.lane, begin);
		const now = latest.current.scene.span;
		if (begin < now.begin || begin > now.end) {
			const half = (now.end - now.begin) / 2;
			move({ begin: begin - half, end: begin + half });
		}
	};
	const above = (by: number) => {
		const all = rows.filter((row): row is LaneRow => row.lane !== null);
		const place = all.findIndex((row) => row.lane.id === selected?.lane);
		const row = all[Math.min(all.length - 1, Math.max(0, place + by))];
		if (!row) return;
		select(row.lane.id, selected?.at ?? (span.begin + span.end) / 2);
	};
	/** Scrolls until a row is seen. */
	const bring = (row: Row) => {
		const begins = rows.slice(0, rows.indexOf(row)).reduce((sum, { height }) => sum + height, 0);
		const room = size.height - AXIS_HEIGHT;
		if (begins < top) setScroll(begins);
		else if (begins + row.height > top + room) setScroll(begins + row.height - room);
	};
	/** Along an arrow, to the lane and the time at its other end. */
	const follow = (lane: number, at: number) => {
		select(lane, at);
		const now = latest.current.scene.span;
		if (at >= now.begin && at <= now.end) return;
		const half = (now.end - now.begin) / 2;
		move({ begin: at - half, end: at + half });
	};
	const mark = () => {
		const at = Math.round(pointer ? span.begin + pointer.x * nsPerPixel : (span.begin + span.end) / 2);
		const isNear = (mark: number) => Math.abs(mark - at) < 4 * nsPerPixel;
		const others = shown.marks.filter((mark) => !isNear(mark));
		show({ marks: others.length < shown.marks.length ? others : [...others, at] });
	};
	const acts = {
		"zoom-in": () => zoom(0.7, 0.5),
		"zoom-out": () => zoom(1 / 0.7, 0.5),
		left: () => pan(-0.2),
		right: () => pan(0.2),
		fit,
		pin: () => selected && show({ pinned: turn(shown.pinned, selected.lane) }),
		next: () => void step("next"),
		previous: () => void step("previous"),
		waker: () => {
			if (selectedSpan && waker !== null) follow(waker, selectedSpan.end);
			else if (creator !== null && selected) {
				const created = lanes.get(selected.lane)?.created_ns;
				if (created) follow(creator, Number(BigInt(created) - origin));
			}
		},
		view: () => show({ view: shown.view === "flow" ? "states" : "flow" }),
		hide: () => selected && show({ hidden: [...shown.hidden, selected.lane], selected: null }),
		group: () => {
			const group = selected && lanes.groupsOf(selected.lane, shown.group)[0];
			if (group) show({ closed: turn(shown.closed, group.key) });
		},
		arrange: () => {
			const menu = stage.current!.querySelector<HTMLDetailsElement>(".lanes-menu")!;
			menu.open = true;
			menu.querySelector("select")?.focus();
		},
		// In the wait, so that "[" leads back.
		woken: () => wakes && follow(wakes.lane, wakes.at - 1),
		filter: () => document.getElementById("search")?.focus(),
		above: () => above(-1),
		below: () => above(1),
		calls: () => selected && lanes.hasCalls(selected.lane) && show({ open: turn(shown.open, selected.lane) }),
		range: () => {
			const { begin, end } = selectedSpan ?? span;
			show({ range: { begin, end: Math.max(end, begin + 1) }, selected: null });
		},
		note: () => {
			// A piece that is not known yet, or a time without one, is a moment.
			const instant = selected && { begin: selected.at, end: selected.at };
			const lane = selected && { lane: laneKey(selected.lane, lanes) };
			write({ ...(selectedSpan ?? instant ?? shown.range ?? span), ...lane, text: "", index: null });
		},
		export: () => setExporting(true),
	};
	useCommands({ ...((pair?.isActive ?? true) && acts), ...((pair?.isPointed ?? true) && { mark }) });

	// A lane that is selected elsewhere, such as by a search, is scrolled into view; again when the room shrinks, such as when its details appear.
	const selectedLane = selected?.lane;
	const come = useRef(() => {});
	come.current = () => {
		const row = rows.find((row): row is LaneRow => row.lane !== null && row.lane.id === selectedLane);
		if (row && size.height > 0) bring(row);
	};
	useEffect(() => come.current(), [selectedLane, size.height]);
	useEffect(() => setScroll(0), [pair?.home]);

	const { pointer, stage, on } = useHands(canvas, {
		span,
		top,
		scroll: (to) => setScroll(Math.min(scrollMax, Math.max(0, to))),
		move,
		zoom,
		pan,
		range: (range) => show({ range, selected: null }, "glide"),
		press: async (x, y) => {
			const flag = y < AXIS_HEIGHT ? flagAt(notes, span, size.width, x) : -1;
			if (flag >= 0) {
				write({ ...notes[flag]!, index: flag });
				return;
			}
			const found = await painter.hit(x, y);
			if (found) select(found.lane, Math.round(found.at));
			else show({ selected: null });
		},
	});

	const nsPerPixel = (span.end - span.begin) / Math.max(1, size.width);
	const flag = pointer && pointer.y < AXIS_HEIGHT ? flagAt(notes, span, size.width, pointer.x) : -1;
	const act = useCallback(
		(what: "select" | "pin" | "hide" | "open", lane: number) => {
			const { scene, shown } = latest.current;
			if (what === "select") select(lane, shown.selected?.at ?? (scene.span.begin + scene.span.end) / 2);
			else if (what === "pin") show({ pinned: turn(shown.pinned, lane) });
			else if (what === "hide") show({ hidden: [...shown.hidden, lane] });
			else show({ open: turn(shown.open, lane) });
		},
		[show, select],
	);
	const actOnGroup = useCallback(
		(what: "turn" | "hide", key: string) => {
			const { shown } = latest.current;
			if (what === "turn") show({ closed: turn(shown.closed, key) });
			else show({ hiddenGroups: [...shown.hiddenGroups, key] });
		},
		[show],
	);
	// Not again whenever time moves, and the same ones as long as they are seen.
	const names = useMemo(
		() =>
			seen.map(({ row, top: below }) =>
				row.lane === null ? (
					<GroupHeading key={row.key} row={row} top={below + top} length={whole.end - whole.begin} act={actOnGroup} />
				) : (
					<Name
						key={row.lane.id}
						row={row}
						top={below + top}
						isSelected={row.lane.id === selectedLane}
						isPinned={shown.pinned.includes(row.lane.id)}
						isOpen={lanes.hasCalls(row.lane.id) ? shown.open.includes(row.lane.id) : null}
						act={act}
					/>
				),
			),
		[seenRows, selectedLane, lanes, whole, act, actOnGroup],
	);
	const list = useRef<HTMLUListElement>(null);
	useLayoutEffect(() => {
		list.current!.style.transform = `translateY(${AXIS_HEIGHT - top}px)`;
	}, [top]);
	const seenLanes = seen.flatMap(({ row }) => row.lane?.id ?? []);
	useEffect(() => sees?.(seenLanes), [sees, seenLanes.join()]);
	const pointed = pointer && span.begin + pointer.x * nsPerPixel;
	const points = pair?.points;
	// Before the next key is pressed.
	useLayoutEffect(() => points?.(pointed), [points, pointed]);
	return (
		<>
			<Overview
				recording={recording}
				origin={origin}
				whole={whole}
				reach={reach}
				span={span}
				lanes={lanes}
				theme={theme}
				heading={pair?.heading}
				move={move}
				grown={grown}
				width={size.width}
				matches={matches}
				notes={notes}
			/>
			<div class="stage" ref={stage}>
				<div class="names">
					<div class="count">
						<span>
							{laneCount} {laneCount === 1 ? "lane" : "lanes"}
							{!shown.filter && unknown > 0 && (
								<span title="The trace contains nothing about these threads. The filter finds them.">
									, {unknown} unknown
								</span>
							)}
							{lanes.leftOut > 0 && `, ${lanes.leftOut} less busy ones left out`}
						</span>
						{menu}
					</div>
					<ul ref={list} aria-label={pair ? `Lanes, ${pair.name}` : "Lanes"}>
						{names}
					</ul>
				</div>
				<canvas
					ref={canvas}
					aria-label={`${pair ? `${pair.name}: timeline` : "Timeline"} from ${moment(span.begin, 1e3)} to ${moment(span.end, 1e3)}`}
					role="img"
					{...on}
				/>
			</div>
			{pointer && <LaneTip {...{ painter, pointer, scene, lanes, nsPerPixel }} />}
			{pointer && flag >= 0 && (
				<Tip x={pointer.clientX} y={pointer.clientY}>
					{notes[flag]!.text}
				</Tip>
			)}
			{isExporting && <Exports {...{ recording, origin, whole, scene, painter }} close={() => setExporting(false)} />}
		</>
	);
}
