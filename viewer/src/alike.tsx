// SPDX-License-Identifier: MIT OR Apache-2.0
// How the selected piece compares with the others of its name: a histogram of their durations, on a logarithmic scale.
import { useMemo, useState } from "preact/hooks";
import { REST_MS, useAnswer } from "./answers";
import * as api from "./api";
import type { Class } from "./colours";
import { CLASS_NAMES } from "./colours";
import type { Props } from "./details";
import { around } from "./places";
import { duration, lengthOf, moment } from "./time";

const WIDTH = 440;
const HEIGHT = 96;
/** Below the bars, for the axis. */
const AXIS = 16;

export function AlikeView(props: Props & { piece: api.Named }) {
	const { recording, origin, lanes, shown, piece } = props;
	const selected = shown.selected!;
	const [among, setAmong] = useState<"lane" | "kind">("lane");
	const of = [recording, selected.lane, among, piece.begin_ns, piece.end_ns];
	const { answer: alike, problem } = useAnswer(
		of,
		(signal) => api.alike(recording, selected.lane, origin + BigInt(Math.round(selected.at)), among, signal),
		{ restMs: REST_MS },
	);
	const lane = lanes.get(selected.lane);
	if (!lane) return null;
	const name = piece.what ? lanes.said(piece.what) : CLASS_NAMES[piece.class as Class];
	const kinds = {
		thread: "threads",
		calls: "threads",
		spans: "threads",
		cpu: "CPUs",
		interrupt: "interrupts",
		device: "devices",
		events: "threads",
		counter: "lanes of numbers",
	};
	return (
		<section class="alike" aria-label="Comparison" aria-busy={!alike && !problem}>
			<div class="headed">
				<h3>
					{name}: <small>all durations</small>
				</h3>
				<div role="tablist" class="tabs">
					<button type="button" role="tab" aria-selected={among === "lane"} onClick={() => setAmong("lane")}>
						This lane
					</button>
					<button type="button" role="tab" aria-selected={among === "kind"} onClick={() => setAmong("kind")}>
						All {kinds[lane.kind]}
					</button>
				</div>
			</div>
			{problem && <p role="alert">{problem}</p>}
			{!alike && !problem && <p class="faint">Counting…</p>}
			{alike && <Histogram key={of.join(" ")} {...props} alike={alike} />}
		</section>
	);
}

function Histogram({
	origin,
	whole,
	lanes,
	shown,
	show,
	piece,
	alike,
}: Props & { piece: api.Named; alike: api.Alike }) {
	const own = lengthOf(piece);
	const { bars } = alike;
	const scale = useMemo(() => scaleOf(bars), [bars]);
	const [chosen, choose] = useState<number | null>(null);
	const bar = chosen === null ? undefined : bars[chosen];
	const most = Math.max(...bars.map(({ count }) => count));
	const said = ({ from_ns, to_ns, count }: api.Bar) =>
		`${duration(from_ns)} to ${duration(to_ns)}: ${count.toLocaleString("en-US")}`;
	const rank = alike.count > 1 ? (alike.shorter / (alike.count - 1)) * 100 : null;
	const open = ({ lane, begin_ns, duration_ns }: api.Bar["slowest"][number]) => {
		const begin = Number(BigInt(begin_ns) - origin);
		const now = shown.span ?? whole;
		// What is wide enough to be seen stays where it is.
		const isSeen = begin >= now.begin && begin <= now.end && duration_ns * 200 > now.end - now.begin;
		const span = isSeen ? {} : { span: around({ begin, end: begin + duration_ns }, whole, 2000) };
		show({ selected: { lane, at: begin }, ...span });
	};
	const turn = (event: KeyboardEvent) => {
		const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };
		const by = steps[event.key];
		if (by === undefined) return;
		event.preventDefault();
		const start = bars.findIndex(({ from_ns, to_ns }) => own >= from_ns && own < to_ns);
		choose((now) => Math.min(bars.length - 1, Math.max(0, now === null ? start : now + by)));
	};
	return (
		<>
			<p>
				{rank !== null && (
					<>
						<strong>Longer than {rank > 99 && rank < 100 ? rank.toFixed(2) : Math.round(rank)} %</strong> of the others.{" "}
					</>
				)}
				{alike.count.toLocaleString("en-US")} {alike.count === 1 ? "piece" : "pieces"}
				{alike.lanes > 1 && ` in ${alike.lanes.toLocaleString("en-US")} lanes`}, {duration(alike.total_ns)} in all, mean{" "}
				{duration(alike.total_ns / alike.count)}.
				{alike.is_part && " Only a part of the pieces was counted because there are too many."}
			</p>
			<div
				role="listbox"
				aria-label="Durations. Use the arrow keys to choose a bar."
				aria-activedescendant={chosen === null ? undefined : `bar-${chosen}`}
				tabIndex={0}
				onKeyDown={turn}
			>
				<svg class="histogram" width={WIDTH} height={HEIGHT} role="presentation">
					{bars.map((bar, index) => {
						const [left, right] = [scale.x(bar.from_ns), scale.x(bar.to_ns)];
						const height = Math.max(2, (bar.count / most) * (HEIGHT - AXIS - 8));
						const isOwn = own >= bar.from_ns && own < bar.to_ns;
						return (
							<g
								key={bar.from_ns}
								id={`bar-${index}`}
								role="option"
								aria-selected={index === chosen}
								aria-label={said(bar) + (isOwn ? ", including the selected piece" : "")}
								class={`bar ${isOwn ? "own" : ""}`}
								onClick={() => choose(index)}
							>
								<title>{said(bar)}</title>
								<rect class="reach" x={left} y="0" width={right - left} height={HEIGHT - AXIS} />
								<rect
									class="count"
									x={left + 0.5}
									y={HEIGHT - AXIS - height}
									width={Math.max(1, right - left - 1)}
									height={height}
								/>
							</g>
						);
					})}
					<path class="own-mark" d={`M${scale.x(own)} ${HEIGHT - AXIS}V6M${scale.x(own) - 4} 0h8l-4 6z`} />
					<path class="axis" d={`M0 ${HEIGHT - AXIS + 0.5}H${WIDTH}`} />
					{scale.marks.map((ns) => (
						<text key={ns} x={scale.x(ns)} y={HEIGHT - 3} text-anchor={anchorOf(scale.x(ns))}>
							{short(ns)}
						</text>
					))}
				</svg>
			</div>
			{bar ? (
				<ol class="slowest" aria-live="polite" aria-label={`The slowest pieces from ${said(bar)}`}>
					<li class="faint">
						{duration(bar.from_ns)} to {duration(bar.to_ns)}: {bar.count.toLocaleString("en-US")}
						{bar.count > bar.slowest.length && `, the slowest ${bar.slowest.length}`}
					</li>
					{bar.slowest.map((slow) => (
						<li key={`${slow.lane} ${slow.begin_ns}`}>
							<button type="button" class="link" onClick={() => open(slow)}>
								{duration(slow.duration_ns)}
							</button>{" "}
							at {moment(Number(BigInt(slow.begin_ns) - origin), 1e3)}
							{alike.lanes > 1 && ` in ${lanes.name(slow.lane)}`}
						</li>
					))}
				</ol>
			) : (
				<p class="faint">Click a bar to list its slowest pieces.</p>
			)}
		</>
	);
}

/** Where durations are on the axis, which is logarithmic, and those that are named. */
function scaleOf(bars: api.Bar[]): { x: (ns: number) => number; marks: number[] } {
	const first = Math.log10(Math.max(1, bars[0]?.from_ns ?? 1));
	const last = Math.log10(Math.max(10, bars.at(-1)?.to_ns ?? 10));
	// At least a decade, so that a bar is no wall.
	const room = Math.max(1, last - first);
	const begin = (first + last - room) / 2;
	const x = (ns: number) => 8 + ((Math.log10(Math.max(1, ns)) - begin) / room) * (WIDTH - 16);
	const step = Math.max(1, Math.ceil(room / 8));
	const marks = [];
	for (let power = Math.ceil(begin); power <= begin + room; power += step) marks.push(10 ** power);
	return { x, marks };
}

/** Labels of the axis do not reach beyond the edges. */
const anchorOf = (x: number): "start" | "middle" | "end" => (x < 24 ? "start" : x > WIDTH - 24 ? "end" : "middle");

/** A power of ten: `100 µs` */
const short = (ns: number): string => duration(ns).replace(/\.0+/, "");
