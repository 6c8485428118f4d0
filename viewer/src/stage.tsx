// SPDX-License-Identifier: MIT OR Apache-2.0
// The timeline with its lanes' names, the overview above it, and what hands do to it.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Shown } from "./address";
import * as api from "./api";
import { CLASSES, css, type Theme } from "./colours";
import { useCommands } from "./commands";
import { Exports } from "./exports";
import { drawFlags, flagAt } from "./flags";
import { GroupHeading, LanesMenu, MENU_ID } from "./lanes_menu";
import { type Draft, laneKey, type Note } from "./notes";
import type { Segment } from "./path";
import { Pinch } from "./pinch";
import { choiceOf, indentOf, type LaneRow, type Lanes, type Row, title } from "./rows";
import { Tiles } from "./tiles";
import { moment } from "./time";
import { AXIS_HEIGHT, Picture, type Scene, type Span } from "./timeline";
import type { Wait } from "./wakes";

const OVERVIEW_COLUMNS = 800;
const OVERVIEW_LANES_MAX = 512;
/** The closest that one can look. */
const SPAN_MIN = 100;
/** Beyond the ends of the recording, as a part of what is seen. */
const MARGIN = 0.5;

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
	/** Another one whenever the recording's timeline has grown. */
	grown: string;
	failed: (why: string | null) => void;
	/** The critical path that is shown. */
	path: Segment[];
	/** The next wait that the selected thread ended. */
	wakes: Wait | null;
	/** Told the lanes that are seen, whenever they are others. */
	sees?: ((lanes: number[]) => void) | undefined;
	/** Where a search has found something, in ns. */
	matches: readonly number[];
	notes: readonly Note[];
	/** A note is written, or an old one changed. */
	write: (note: Draft) => void;
}

/** What can be shown: not too close, and not far beyond the recording. */
function within(span: Span, whole: Span): Span {
	const most = (whole.end - whole.begin) * (1 + 2 * MARGIN);
	const length = Math.min(Math.max(span.end - span.begin, SPAN_MIN), most);
	const middle = (span.begin + span.end) / 2;
	const first = whole.begin - length * MARGIN;
	const last = Math.max(first, whole.end - length * (1 - MARGIN));
	const begin = Math.min(Math.max(middle - length / 2, first), last);
	return { begin, end: begin + length };
}

interface Drag {
	x: number;
	y: number;
	span: Span;
	scroll: number;
	isRange: boolean;
	hasMoved: boolean;
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
		grown,
		failed,
		path,
		wakes,
		sees,
		matches,
		notes,
		write,
	} = props;
	const canvas = useRef<HTMLCanvasElement>(null);
	const [scroll, setScroll] = useState(0);
	/** On the canvas, and in the window. */
	const [pointer, setPointer] = useState<{ x: number; y: number; clientX: number; clientY: number } | null>(null);
	const [, setTick] = useState(0);
	const [selectedSpan, setSelectedSpan] = useState<Span | null>(null);
	/** The lane of the thread that ended it, if it is a wait. */
	const [waker, setWaker] = useState<number | null>(null);
	/** The lane of the thread that created it, if it is the first piece of a thread. */
	const [creator, setCreator] = useState<number | null>(null);
	const [size, setSize] = useState({ width: 0, height: 0 });
	const frame = useRef(0);
	const drag = useRef<Drag | null>(null);
	const pinch = useRef(new Pinch());
	const [isExporting, setExporting] = useState(false);

	// An address may have any.
	const isFollowing = isLive && shown.follow;
	const span = useMemo(() => {
		const chosen = within(shown.span ?? whole, whole);
		return isFollowing ? { begin: whole.end - (chosen.end - chosen.begin), end: whole.end } : chosen;
	}, [shown.span, whole, isFollowing]);
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
	const keysOfGroups = useMemo(() => rows.flatMap((row) => (row.lane ? [] : row.key)), [rows]);
	const unknown = useMemo(() => lanes.unknown, [lanes]);
	const total = useMemo(() => rows.reduce((sum, row) => sum + row.height, 0), [rows]);
	const scrollMax = Math.max(0, total - (size.height - AXIS_HEIGHT));
	const top = Math.min(scroll, scrollMax);

	const scene: Scene = {
		span,
		rows,
		isFlow: shown.view === "flow",
		scroll: top,
		selected: shown.selected ? { lane: shown.selected.lane, span: selectedSpan, waker, creator, wakes } : null,
		path,
		range: shown.range,
		marks: shown.marks,
		notes,
	};
	const latest = useRef({ scene, theme });
	latest.current = { scene, theme };

	const tell = useRef(failed);
	tell.current = failed;
	const redraw = useRef(() => {});
	const tiles = useMemo(() => {
		// What is under the pointer is another thing, too.
		const changed = () => setTick((tick) => tick + 1);
		return new Tiles(recording, origin, changed, (why) => tell.current(why));
	}, [recording, origin]);
	useEffect(() => () => tiles.close(), [tiles]);
	const picture = useRef<Picture | null>(null);

	redraw.current = () => {
		if (frame.current) return;
		frame.current = requestAnimationFrame(() => {
			frame.current = 0;
			if (!canvas.current) return;
			if (picture.current?.canvas !== canvas.current || picture.current.lanes !== lanes) {
				picture.current = new Picture(canvas.current, tiles, lanes);
			}
			picture.current.draw(latest.current.scene, latest.current.theme);
		});
	};
	useLayoutEffect(() => redraw.current());
	useEffect(() => () => cancelAnimationFrame(frame.current), []);
	useEffect(() => {
		tiles.refresh();
		redraw.current();
	}, [tiles, grown]);
	useEffect(() => {
		const element = canvas.current!;
		const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
		observer.observe(element);
		return () => observer.disconnect();
	}, []);

	// Pinned lanes are at the top: those of a path are pinned to be seen.
	const hasPath = path.length > 0;
	useEffect(() => {
		if (hasPath) setScroll(0);
	}, [hasPath, shown.pinned]);

	// The piece that is selected: where it begins and ends.
	const { selected } = shown;
	useEffect(() => {
		setSelectedSpan(null);
		setWaker(null);
		setCreator(null);
		if (!selected) return;
		const controller = new AbortController();
		const at = origin + BigInt(Math.round(selected.at));
		api.piece(recording, selected.lane, at, controller.signal).then(
			({ piece }) => {
				if (!piece) return;
				const lane = lanes.get(selected.lane);
				setWaker(lane?.kind === "thread" ? (piece.by?.lane ?? null) : null);
				setCreator(lane?.first_ns === piece.begin_ns ? (lane.created_by ?? null) : null);
				setSelectedSpan({
					begin: Number(BigInt(piece.begin_ns) - origin),
					end: Number(BigInt(piece.end_ns) - origin),
				});
			},
			() => {},
		);
		return () => controller.abort();
	}, [recording, origin, lanes, selected]);

	const move = useCallback(
		(to: Span, follow = false) => {
			show({ span: within(to, whole), follow }, "glide");
		},
		[show, whole],
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
		const of = selectedSpan ?? shown.range ?? whole;
		const around = of === whole ? 0 : (of.end - of.begin) * 0.1;
		move({ begin: of.begin - around, end: of.end + around });
	};
	const step = async (direction: "previous" | "next") => {
		if (!selected) return;
		const at = origin + BigInt(Math.round(selected.at));
		const found = await api.piece(recording, selected.lane, at, new AbortController().signal).catch(() => null);
		const piece = found?.[direction];
		if (!piece) return;
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
	const turn = <T,>(list: T[], id: T) => (list.includes(id) ? list.filter((one) => one !== id) : [...list, id]);

	useCommands({
		"zoom-in": () => zoom(0.7, 0.5),
		"zoom-out": () => zoom(1 / 0.7, 0.5),
		left: () => pan(-0.2),
		right: () => pan(0.2),
		fit,
		mark: () => {
			const at = Math.round(pointer ? span.begin + pointer.x * nsPerPixel : (span.begin + span.end) / 2);
			const isNear = (mark: number) => Math.abs(mark - at) < 4 * nsPerPixel;
			const others = shown.marks.filter((mark) => !isNear(mark));
			show({ marks: others.length < shown.marks.length ? others : [...others, at] });
		},
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
			const menu = document.getElementById(MENU_ID) as HTMLDetailsElement;
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
	});

	// A lane that is selected elsewhere, as by a search, comes into view; again when there is less room, as when its details appear.
	const selectedLane = selected?.lane;
	const come = useRef(() => {});
	come.current = () => {
		const row = rows.find((row): row is LaneRow => row.lane !== null && row.lane.id === selectedLane);
		if (row && size.height > 0) bring(row);
	};
	useEffect(() => come.current(), [selectedLane, size.height]);

	const wheel = useRef((_: WheelEvent) => {});
	wheel.current = (event) => {
		event.preventDefault();
		const box = canvas.current!.getBoundingClientRect();
		const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
		const isOnNames = event.clientX < box.left;
		if (event.shiftKey || isOnNames) {
			setScroll(Math.min(scrollMax, Math.max(0, top + (event.deltaY + (isOnNames ? 0 : event.deltaX)) * lines)));
		} else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
			pan((event.deltaX * lines) / box.width);
		} else {
			zoom(1.0015 ** (event.deltaY * lines * (event.ctrlKey ? 6 : 1)), (event.clientX - box.left) / box.width);
		}
	};
	const stage = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const element = stage.current!;
		const turned = (event: WheelEvent) => wheel.current(event);
		element.addEventListener("wheel", turned, { passive: false });
		return () => element.removeEventListener("wheel", turned);
	}, []);

	const place = (event: PointerEvent) => {
		const box = canvas.current!.getBoundingClientRect();
		return { x: event.clientX - box.left, y: event.clientY - box.top, width: box.width };
	};
	const at = (x: number, width: number) => span.begin + ((span.end - span.begin) * x) / width;
	const down = (event: PointerEvent) => {
		if (event.button !== 0) return;
		const { x, y } = place(event);
		canvas.current!.setPointerCapture(event.pointerId);
		pinch.current.down(event.pointerId, x, canvas.current!.clientWidth, span);
		if (pinch.current.isOn) {
			drag.current = null;
			return;
		}
		drag.current = { x, y, span, scroll: top, isRange: event.shiftKey, hasMoved: false };
	};
	const moved = (event: PointerEvent) => {
		const { x, y, width } = place(event);
		const pinched = pinch.current.moved(event.pointerId, x, width);
		if (pinched) {
			move(pinched);
			return;
		}
		const now = drag.current;
		if (!now) {
			setPointer({ x, y, clientX: event.clientX, clientY: event.clientY });
			return;
		}
		now.hasMoved ||= Math.abs(x - now.x) + Math.abs(y - now.y) > 3;
		if (!now.hasMoved) return;
		setPointer(null);
		if (now.isRange) {
			const [one, other] = [at(now.x, width), at(x, width)];
			const range = { begin: Math.min(one, other), end: Math.max(one, other, Math.min(one, other) + 1) };
			show({ range, selected: null }, "glide");
			return;
		}
		const by = ((now.span.end - now.span.begin) * (now.x - x)) / width;
		move({ begin: now.span.begin + by, end: now.span.end + by });
		setScroll(Math.min(scrollMax, Math.max(0, now.scroll + now.y - y)));
	};
	const up = (event: PointerEvent) => {
		const now = drag.current;
		pinch.current.up(event.pointerId);
		drag.current = null;
		if (!now || now.hasMoved) return;
		const { x, y, width } = place(event);
		const flag = y < AXIS_HEIGHT ? flagAt(notes, span, width, x) : -1;
		if (flag >= 0) {
			write({ ...notes[flag]!, index: flag });
			return;
		}
		const found = picture.current?.hit(latest.current.scene, x, y);
		if (found) select(found.row.lane.id, Math.round(found.at));
		else show({ selected: null });
	};

	const nsPerPixel = (span.end - span.begin) / Math.max(1, size.width);
	const flag = pointer && pointer.y < AXIS_HEIGHT ? flagAt(notes, span, size.width, pointer.x) : -1;
	const hit = pointer ? picture.current?.hit(scene, pointer.x, pointer.y) : null;
	const seen = Picture.seen(scene, size.height - AXIS_HEIGHT);
	const seenLanes = seen.flatMap(({ row }) => row.lane?.id ?? []);
	useEffect(() => sees?.(seenLanes), [sees, seenLanes.join()]);
	return (
		<>
			<Overview
				recording={recording}
				origin={origin}
				whole={whole}
				span={span}
				lanes={lanes}
				theme={theme}
				move={move}
				grown={grown}
				width={size.width}
				matches={matches}
				notes={notes}
			/>
			<div class="stage" ref={stage}>
				<ul class="names" aria-label="Lanes">
					<li class="count">
						<span>
							{laneCount} {laneCount === 1 ? "lane" : "lanes"}
							{!shown.filter && unknown > 0 && (
								<span title="The trace contains nothing about these threads. The filter finds them.">
									, {unknown} unknown
								</span>
							)}
							{lanes.leftOut > 0 && `, ${lanes.leftOut} idle ones left out`}
						</span>
						<LanesMenu shown={shown} show={show} keys={keysOfGroups} />
					</li>
					{seen.map(({ row, top }) =>
						row.lane === null ? (
							<GroupHeading
								key={row.key}
								row={row}
								top={AXIS_HEIGHT + top}
								length={whole.end - whole.begin}
								turn={() => show({ closed: turn(shown.closed, row.key) })}
								hide={() => show({ hiddenGroups: [...shown.hiddenGroups, row.key] })}
							/>
						) : (
							<Name
								key={row.lane.id}
								row={row}
								top={AXIS_HEIGHT + top}
								isSelected={row.lane.id === selected?.lane}
								isPinned={shown.pinned.includes(row.lane.id)}
								isOpen={lanes.hasCalls(row.lane.id) ? shown.open.includes(row.lane.id) : null}
								select={() => select(row.lane.id, selected?.at ?? (span.begin + span.end) / 2)}
								pin={() => show({ pinned: turn(shown.pinned, row.lane.id) })}
								hide={() => show({ hidden: [...shown.hidden, row.lane.id] })}
								open={() => show({ open: turn(shown.open, row.lane.id) })}
							/>
						),
					)}
				</ul>
				<canvas
					ref={canvas}
					aria-label={`Timeline from ${moment(span.begin, 1e3)} to ${moment(span.end, 1e3)}`}
					role="img"
					onPointerDown={down}
					onPointerMove={moved}
					onPointerUp={up}
					onPointerCancel={(event) => {
						pinch.current.up(event.pointerId);
						drag.current = null;
					}}
					onPointerLeave={() => setPointer(null)}
				/>
			</div>
			{pointer && hit && (
				<Tip x={pointer.clientX} y={pointer.clientY}>
					<strong>
						{hit.row.lane.kind === "counter" ? title(hit.row.lane, lanes) : hit.row.title} <small>{hit.row.note}</small>
					</strong>
					{hit.lines.map((line) => (
						<div key={line}>{line}</div>
					))}
					<small>{moment(hit.at, Math.max(1, nsPerPixel))}</small>
				</Tip>
			)}
			{pointer && flag >= 0 && (
				<Tip x={pointer.clientX} y={pointer.clientY}>
					{notes[flag]!.text}
				</Tip>
			)}
			{isExporting && picture.current && (
				<Exports
					{...{ recording, origin, whole, scene, theme }}
					picture={picture.current}
					close={() => setExporting(false)}
				/>
			)}
		</>
	);
}

interface NameProps {
	row: LaneRow;
	top: number;
	isSelected: boolean;
	isPinned: boolean;
	/** Absent: it has no system calls. */
	isOpen: boolean | null;
	select: () => void;
	pin: () => void;
	hide: () => void;
	open: () => void;
}

function Name({ row, top, isSelected, isPinned, isOpen, select, pin, hide, open }: NameProps) {
	const place = useRef<HTMLLIElement>(null);
	useLayoutEffect(() => {
		// Not in the markup: the page's policy allows no style attributes.
		place.current!.style.transform = `translateY(${top}px)`;
		place.current!.style.height = `${row.height}px`;
		place.current!.style.paddingLeft = `${4 + indentOf(row)}px`;
	});
	return (
		<li ref={place} class={`name ${row.isInner ? "inner" : ""} ${isSelected ? "selected" : ""}`}>
			{isOpen === null ? (
				<span class="opener" />
			) : (
				<button type="button" class="opener" aria-expanded={isOpen} aria-label="System calls" onClick={open}>
					{isOpen ? "▾" : "▸"}
				</button>
			)}
			<button type="button" class="title" onClick={select} title={`${row.title} ${row.note}`}>
				{row.title} <small>{row.note}</small>
			</button>
			<button type="button" class="pin" aria-label="Hide this lane" title="Hide this lane (H)" onClick={hide}>
				×
			</button>
			{!row.isInner && (
				<button type="button" class="pin" aria-pressed={isPinned} aria-label="Pin to the top" onClick={pin}>
					{isPinned ? "★" : "☆"}
				</button>
			)}
		</li>
	);
}

export function Tip({ x, y, children }: { x: number; y: number; children: ComponentChildren }) {
	const box = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const { offsetWidth, offsetHeight } = box.current!;
		const left = Math.min(x + 14, innerWidth - offsetWidth - 8);
		const above = y + 18 + offsetHeight > innerHeight;
		box.current!.style.transform = `translate(${left}px, ${above ? y - offsetHeight - 10 : y + 18}px)`;
	});
	return (
		<div class="tip" ref={box} role="tooltip">
			{children}
		</div>
	);
}

interface OverviewProps {
	recording: number;
	origin: bigint;
	whole: Span;
	span: Span;
	lanes: Lanes;
	theme: Theme;
	grown: string;
	/** Of the timeline, in pixels: when it changes, so does this. */
	width: number;
	matches: readonly number[];
	notes: readonly Note[];
	move: (span: Span) => void;
}

/** How busy the CPUs were over the whole recording, or else which programs recorded something; and which part of it is seen. */
function Overview({ recording, origin, whole, span, lanes, theme, grown, width, matches, notes, move }: OverviewProps) {
	const canvas = useRef<HTMLCanvasElement>(null);
	const [busy, setBusy] = useState<Shares | null>(null);
	useEffect(() => {
		const isMeant = ({ kind, depth }: api.Lane) =>
			lanes.hasKernel ? kind === "cpu" : kind === "events" || depth === 0;
		const meant = lanes.all.filter(isMeant).slice(0, OVERVIEW_LANES_MAX);
		if (meant.length === 0 || grown === "") return;
		const controller = new AbortController();
		const end = origin + BigInt(Math.ceil(whole.end));
		const ids = meant.map(({ id }) => id);
		api.part(recording, ids, origin, end, OVERVIEW_COLUMNS, controller.signal).then(
			(part) => setBusy(busyShares(part, whole.end, lanes.hasKernel ? 0 : 1)),
			() => {},
		);
		return () => controller.abort();
	}, [recording, origin, whole, lanes, grown]);
	useLayoutEffect(() => {
		const element = canvas.current!;
		const scale = devicePixelRatio;
		const [all, height] = [element.clientWidth * scale, element.clientHeight * scale];
		element.width = all;
		element.height = height;
		const context = element.getContext("2d")!;
		const room = height - 4 * scale;
		for (let column = 0; busy && column < OVERVIEW_COLUMNS; column++) {
			const left = (column * all) / OVERVIEW_COLUMNS;
			const high = busy.busy[column]! * room;
			const unknown = busy.unknown[column]! * room;
			context.fillStyle = css(theme.classes.kernel);
			context.fillRect(left, height - high, all / OVERVIEW_COLUMNS + 0.5, high);
			context.fillStyle = css(theme.classes.unknown);
			// Lines: hatched, as everywhere.
			for (let y = 0; y < unknown; y += 4 * scale) {
				context.fillRect(left, height - high - y - scale, all / OVERVIEW_COLUMNS + 0.5, scale);
			}
		}
		const length = whole.end - whole.begin;
		const left = ((span.begin - whole.begin) / length) * all;
		const right = ((span.end - whole.begin) / length) * all;
		context.fillStyle = theme.name === "dark" ? "#18191bb0" : "#ffffffb0";
		context.fillRect(0, 0, left, height);
		context.fillRect(right, 0, all - right, height);
		context.strokeStyle = theme.faint;
		context.lineWidth = scale;
		context.strokeRect(left, 0.5, Math.max(2 * scale, right - left), height - 1);
		context.fillStyle = theme.match;
		for (const match of matches) {
			const x = ((match - whole.begin) / length) * all;
			context.fillRect(Math.round(x - scale / 2), height - 9 * scale, Math.max(1, Math.round(1.5 * scale)), 9 * scale);
		}
		drawFlags(context, notes, whole, { width: all, height, scale, colour: theme.note });
	}, [busy, whole, span, theme, width, matches, notes]);
	const jump = (event: PointerEvent) => {
		if (event.type === "pointermove" && event.buttons !== 1) return;
		const box = canvas.current!.getBoundingClientRect();
		const at = whole.begin + ((whole.end - whole.begin) * (event.clientX - box.left)) / box.width;
		const half = (span.end - span.begin) / 2;
		move({ begin: at - half, end: at + half });
	};
	return (
		<div class="overview">
			<span class="faint">{lanes.hasKernel ? "CPUs" : "Programs"}</span>
			<canvas
				ref={canvas}
				role="img"
				aria-label={lanes.hasKernel ? "How busy the CPUs were" : "When programs recorded something"}
				onPointerDown={jump}
				onPointerMove={jump}
			/>
		</div>
	);
}

/** By column: which share of the lanes' time they were busy, and of which share nobody knows. */
interface Shares {
	busy: Float64Array;
	unknown: Float64Array;
}

/** What is there at all counts as `least` of its column: events take no time. */
function busyShares({ lanes }: api.Part, end: number, least: number): Shares {
	const shares = { busy: new Float64Array(OVERVIEW_COLUMNS), unknown: new Float64Array(OVERVIEW_COLUMNS) };
	const width = end / OVERVIEW_COLUMNS;
	for (const data of lanes.values()) {
		const own = { busy: new Float64Array(OVERVIEW_COLUMNS), unknown: new Float64Array(OVERVIEW_COLUMNS) };
		const add = (number: number, column: number, share: number) => {
			const to = CLASSES[number] === "unknown" ? own.unknown : own.busy;
			if (CLASSES[number] !== "idle") to[column]! += Math.max(share, least);
		};
		if (data.kind === "columns") {
			let next = 0;
			for (let column = 0; column < data.masks.length; column++) {
				const mask = data.masks[column]!;
				for (let number = 0; mask >> number !== 0; number++) {
					if ((mask >> number) & 1) add(number, column, data.shares[next++]! / 255);
				}
			}
		} else {
			for (let index = 0; index < data.begin.length; index++) {
				const from = Math.max(0, data.begin[index]!);
				const until = Math.min(end, data.begin[index]! + data.duration[index]!);
				const last = Math.min(OVERVIEW_COLUMNS - 1, Math.floor(until / width));
				for (let column = Math.floor(from / width); column <= last; column++) {
					const shared = Math.min(until, (column + 1) * width) - Math.max(from, column * width);
					add(data.classes[index]!, column, Math.max(0, shared) / width);
				}
			}
		}
		for (let column = 0; column < OVERVIEW_COLUMNS; column++) {
			shares.busy[column]! += Math.min(1, own.busy[column]!) / lanes.size;
			shares.unknown[column]! += Math.min(1, own.unknown[column]!) / lanes.size;
		}
	}
	return shares;
}
