// SPDX-License-Identifier: MIT OR Apache-2.0
// The flame graph of a range in the details: where the time of functions went, where threads left their CPUs, or where events happened.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { REST_MS, useAnswer } from "./answers";
import * as api from "./api";
import type { Props } from "./details";
import {
	costText,
	FRAMES_MAX,
	flameColour,
	type Graph,
	graphOf,
	KINDS,
	kindsOf,
	type Layout,
	layoutOf,
	linesOf,
	type Matches,
	matchesOf,
	shareText,
	stepTo,
} from "./flame";
import { Prose } from "./prose";
import type { Lanes } from "./rows";
import { type Span, shortened } from "./timeline";
import { Tip } from "./tip";
import { Waiting } from "./waiting";

/** The tab of the details that shows it. */
export const FLAME_TAB = "flame";
/** CSS pixels. */
const ROW_HEIGHT = 19;

/** A frame that is as wide as the graph, and which ones were before. */
interface Zoom {
	/** The graph: in another one, frames have other numbers. */
	of: string | null;
	enlarged: number;
	before: readonly number[];
}
const ALL: Zoom = { of: null, enlarged: 0, before: [] };

/** The threads that can be chosen: those that are selected or were last, then pinned ones. */
function threadsOf(shown: Props["shown"], lanes: Lanes): { id: number; tid: number; name: string }[] {
	const found = new Map<number, { id: number; tid: number; name: string }>();
	const named = [shown.flameOf ?? -1, shown.selected?.lane ?? shown.last ?? -1, ...shown.pinned];
	for (const id of named) {
		// Programs without the kernel have lanes of their own.
		const lane = lanes.threadOf(id) ?? lanes.get(id);
		const isThread = lane && (lane.kind === "thread" || lane.kind === "spans" || lane.kind === "events");
		if (!isThread || lane.tid == null || found.has(lane.tid)) continue;
		found.set(lane.tid, { id: lane.id, tid: lane.tid, name: lanes.name(lane.id) });
	}
	return [...found.values()];
}

export function FlameTab(props: Props & { range: Span }) {
	const { recording, origin, lanes, shown, range, show } = props;
	const threads = threadsOf(shown, lanes);
	const thread = shown.flameOf === null ? undefined : threads.find(({ id }) => id === shown.flameOf);
	const begin = origin + BigInt(Math.floor(range.begin));
	const end = origin + BigInt(Math.ceil(range.end));
	const of = [recording, begin, end, thread?.tid];
	const { answer, problem } = useAnswer(
		of,
		(signal) => api.analysis(recording, "flame", begin, end, signal, FRAMES_MAX + 1, thread?.tid),
		{ restMs: REST_MS },
	);
	const isAnswered = answer !== undefined || problem !== undefined;
	const kinds = useMemo(() => (answer === undefined ? [] : kindsOf(answer)), [answer]);
	const kind = kinds.find((kind) => kind === shown.flame) ?? kinds[0];
	const graph = useMemo(() => (kind ? graphOf(answer, kind, FRAMES_MAX) : null), [answer, kind]);
	const notes = (answer as { notes?: string[] } | undefined)?.notes ?? [];
	const id = graph && [...of, graph.kind].join(" ");
	const [zoom, setZoom] = useState<Zoom>(ALL);
	const { enlarged, before } = zoom.of === id ? zoom : ALL;
	const enlarge = (index: number) => {
		if (index !== enlarged && graph?.frames[index]?.isRest === false)
			setZoom({ of: id, enlarged: index, before: [...before, enlarged] });
	};
	const back = () => setZoom({ of: id, enlarged: before.at(-1) ?? 0, before: before.slice(0, -1) });
	const reset = () => setZoom(ALL);
	const [text, setText] = useState("");
	const matches = useMemo(() => graph && matchesOf(graph, text), [graph, text]);
	return (
		<div class={`flame ${problem === undefined ? "drawn" : ""}`} aria-busy={!isAnswered}>
			<div class="buttons">
				{kinds.length > 0 && (
					<div role="tablist" class="tabs" aria-label="Kind of call paths">
						{kinds.map((one) => (
							<button
								key={one}
								type="button"
								role="tab"
								aria-selected={one === kind}
								onClick={() => show({ flame: one })}
							>
								{KINDS[one].name}
							</button>
						))}
					</div>
				)}
				<select
					aria-label="Thread"
					title="To add a thread to this list, select its lane or pin it (P)"
					value={thread?.id ?? ""}
					onChange={({ currentTarget: { value } }) => show({ flameOf: value === "" ? null : Number(value) })}
				>
					<option value="">All threads</option>
					{threads.map(({ id, tid, name }) => (
						<option key={id} value={id}>
							{name} ({tid})
						</option>
					))}
				</select>
				<button type="button" disabled={before.length === 0} title="Go back (Backspace in the graph)" onClick={back}>
					Back
				</button>
				<button type="button" disabled={enlarged === 0} title="Show the whole graph (Esc in the graph)" onClick={reset}>
					Reset
				</button>
				<input
					type="search"
					placeholder="Highlight functions"
					aria-label="Highlight functions"
					value={text}
					onInput={(event) => setText(event.currentTarget.value)}
				/>
				<span role="status" class="faint">
					{graph && matches && foundText(graph, matches)}
				</span>
			</div>
			{!isAnswered && (
				<p>
					<Waiting path={`${recording}/analysis/flame`}>Reading the trace…</Waiting>
				</p>
			)}
			{problem !== undefined && (
				// Mostly, there is nothing to draw, and the sentence has the command that records it.
				<p role="status">
					<Prose text={problem} />
				</p>
			)}
			{graph && <Frames key={id} {...{ graph, enlarged, matches, enlarge, back, reset }} canBack={before.length > 0} />}
			{notes.map((note) => (
				<p key={note} class="faint">
					<Prose text={note} />
				</p>
			))}
		</div>
	);
}

function foundText({ kind, frames }: Graph, { frames: found, total }: Matches): string {
	if (found.size === 0) return "no matching functions";
	const count = `${found.size.toLocaleString("en-US")} ${found.size === 1 ? "frame" : "frames"}`;
	return `${count}, ${costText(kind, total)}, ${shareText(total, frames[0]!.total)} of all`;
}

interface FramesProps {
	graph: Graph;
	enlarged: number;
	matches: Matches | null;
	canBack: boolean;
	enlarge: (index: number) => void;
	back: () => void;
	reset: () => void;
}

function Frames({ graph, enlarged, matches, canBack, enlarge, back, reset }: FramesProps) {
	const place = useRef<HTMLDivElement>(null);
	const [width, setWidth] = useState(0);
	/** The frame that keys start from. */
	const [at, setAt] = useState(0);
	const [tip, setTip] = useState<{ index: number; x: number; y: number } | null>(null);
	/** Keys were used last, not the pointer. */
	const [isByKeys, setByKeys] = useState(false);
	useLayoutEffect(() => {
		const element = place.current!;
		const observer = new ResizeObserver(() => setWidth(element.clientWidth));
		observer.observe(element);
		return () => observer.disconnect();
	}, []);
	const layout = useMemo(() => layoutOf(graph, enlarged, width), [graph, enlarged, width]);
	// What is enlarged is where keys go on.
	useEffect(() => setAt(enlarged), [enlarged]);
	useLayoutEffect(() => {
		if (!isByKeys) return;
		const element = document.getElementById(`frame-${at}`);
		if (!element) return;
		element.scrollIntoView({ block: "nearest" });
		const box = element.getBoundingClientRect();
		setTip({ index: at, x: box.left, y: box.bottom - 12 });
	}, [at, layout, isByKeys]);
	const press = (event: KeyboardEvent) => {
		if (event.ctrlKey || event.altKey || event.metaKey) return;
		const to = stepTo(layout, graph, at, event.key);
		if (to !== null) setAt(to);
		else if (event.key === "Enter") enlarge(at);
		else if (event.key === "Backspace" && canBack) back();
		else if (event.key === "Escape" && enlarged !== 0) reset();
		else return;
		setByKeys(true);
		event.preventDefault();
		event.stopPropagation();
	};
	const leave = () => {
		setByKeys(false);
		setTip(null);
	};
	const { frames } = graph;
	const name = (index: number) =>
		index === 0 ? `All: ${costText(graph.kind, frames[0]!.total)}` : frames[index]!.name;
	return (
		<>
			<div
				ref={place}
				role="tree"
				aria-label="Flame graph. Use the arrow keys to choose a frame, Enter to enlarge it, and Backspace to go back."
				aria-activedescendant={`frame-${at}`}
				tabIndex={0}
				onKeyDown={press}
				onFocus={(event) => setByKeys(event.currentTarget.matches(":focus-visible"))}
				onBlur={leave}
				onPointerLeave={leave}
			>
				<svg class="flame-graph" width={width} height={layout.rows * ROW_HEIGHT} role="presentation">
					<defs>
						<pattern id="flame-rest" width="6" height="6" patternUnits="userSpaceOnUse">
							<path d="M-1.5 1.5l3 -3M0 6L6 0M4.5 7.5l3 -3" />
						</pattern>
					</defs>
					{layout.boxes.map(({ index, row, x, width, isCaller }) => {
						const { isRest } = frames[index]!;
						const shown = shortened(name(index), width);
						const isMatch = matches?.frames.has(index) === true;
						const isPlain = matches ? !isMatch : isCaller;
						const look = isRest ? "rest" : isPlain ? "plain" : isMatch ? "match" : "";
						return (
							<g
								key={index}
								id={`frame-${index}`}
								role="treeitem"
								aria-level={row + 1}
								aria-selected={index === at}
								aria-label={[frames[index]!.name, ...linesOf(graph, index, enlarged)].join(", ")}
								class={`frame ${look}`}
								onClick={() => {
									setByKeys(false);
									setAt(index);
									enlarge(index);
								}}
								onPointerMove={(event) => {
									setByKeys(false);
									setTip({ index, x: event.clientX, y: event.clientY });
								}}
							>
								<rect
									x={x}
									y={row * ROW_HEIGHT}
									width={Math.max(1, width - 1)}
									height={ROW_HEIGHT - 1}
									rx={width > 8 ? 2 : 0}
									fill={isRest ? "url(#flame-rest)" : flameColour(frames[index]!.name)}
								/>
								{shown && (
									// Which cuts off what is wider than it looked.
									<svg x={x} y={row * ROW_HEIGHT} width={width - 2} height={ROW_HEIGHT - 1} aria-hidden="true">
										<text x="4" y={ROW_HEIGHT / 2}>
											{shown}
										</text>
									</svg>
								)}
							</g>
						);
					})}
				</svg>
			</div>
			<LeftOut graph={graph} layout={layout} />
			{tip && frames[tip.index] && (
				<Tip x={tip.x} y={tip.y}>
					<strong>{tip.index === 0 ? "all" : frames[tip.index]!.name}</strong>
					{linesOf(graph, tip.index, enlarged).map((line) => (
						<div key={line}>{line}</div>
					))}
				</Tip>
			)}
		</>
	);
}

/** What the picture does not have. */
function LeftOut({ graph, layout }: { graph: Graph; layout: Layout }) {
	const listed = graph.frames.filter(({ isRest }) => !isRest).length - 1;
	const counted = (count: number, one: string, several: string) =>
		count === 0 ? [] : [`${count.toLocaleString("en-US")} ${count === 1 ? one : several}`];
	const said = [
		"Click a frame to enlarge it",
		...(graph.isCut
			? [
					`Only the ${listed.toLocaleString("en-US")} most expensive call paths are shown; the cost of the others is hatched`,
				]
			: []),
		...counted(layout.narrow, "frame is too narrow to be drawn", "frames are too narrow to be drawn"),
		...counted(layout.deep, "frame is too deep to be drawn", "frames are too deep to be drawn"),
		...counted(layout.callers, "caller is not drawn", "callers are not drawn"),
	];
	return <p class="faint">{said.join(". ")}.</p>;
}
