// SPDX-License-Identifier: MIT OR Apache-2.0
// Above the timeline: the whole recording, with the part that is seen, and where a search has found something.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type * as api from "./api";
import { CLASSES, css, type Theme } from "./colours";
import { drawFlags } from "./flags";
import type { Note } from "./notes";
import { part } from "./reply";
import type { Lanes } from "./rows";
import type { Span } from "./timeline";

const OVERVIEW_COLUMNS = 800;
const OVERVIEW_LANES_MAX = 512;

interface Props {
	recording: number;
	origin: bigint;
	whole: Span;
	/** What it has room for: more than the recording, if two are compared. */
	reach: Span;
	span: Span;
	lanes: Lanes;
	theme: Theme;
	grown: string;
	/** Of the timeline, in pixels: when it changes, so does this. */
	width: number;
	matches: readonly number[];
	notes: readonly Note[];
	/** Instead of what it shows. */
	heading: ComponentChildren;
	move: (span: Span) => void;
}

/** How busy the CPUs were over the whole recording, or else which programs recorded something; and which part of it is seen. */
export function Overview(props: Props) {
	const { recording, origin, whole, reach, span, lanes, theme, grown, width, matches, notes, heading, move } = props;
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
		part(recording, ids, origin, end, OVERVIEW_COLUMNS, controller.signal).then(
			(answer) => setBusy(busyShares(answer, whole.end, lanes.hasKernel ? 0 : 1)),
			() => {},
		);
		return () => controller.abort();
	}, [recording, origin, whole, lanes, grown]);
	/** What is busy, drawn: it is the same in every frame while somebody moves. And what it depends on. */
	const drawn = useRef<{ of: readonly unknown[]; picture: HTMLCanvasElement } | null>(null);
	useLayoutEffect(() => {
		const element = canvas.current!;
		const scale = devicePixelRatio;
		const [all, height] = [Math.round(element.clientWidth * scale), Math.round(element.clientHeight * scale)];
		if (element.width !== all || element.height !== height) [element.width, element.height] = [all, height];
		const place = (ns: number) => ((ns - reach.begin) / (reach.end - reach.begin)) * all;
		const of = [busy, theme, all, height, place(whole.begin), place(whole.end)];
		if (!drawn.current || of.some((one, index) => one !== drawn.current!.of[index])) {
			const from = { begin: place(whole.begin), end: place(whole.end) };
			drawn.current = { of, picture: busyPicture(busy, theme, from, { width: all, height, scale }) };
		}
		const context = element.getContext("2d")!;
		context.clearRect(0, 0, all, height);
		if (all > 0 && height > 0) context.drawImage(drawn.current.picture, 0, 0);
		const [left, right] = [place(span.begin), place(span.end)];
		context.fillStyle = theme.name === "dark" ? "#18191bb0" : "#ffffffb0";
		context.fillRect(0, 0, left, height);
		context.fillRect(right, 0, all - right, height);
		context.strokeStyle = theme.faint;
		context.lineWidth = scale;
		context.strokeRect(left, 0.5, Math.max(2 * scale, right - left), height - 1);
		context.fillStyle = theme.match;
		for (const match of matches) {
			context.fillRect(
				Math.round(place(match) - scale / 2),
				height - 9 * scale,
				Math.max(1, Math.round(1.5 * scale)),
				9 * scale,
			);
		}
		drawFlags(context, notes, reach, { width: all, height, scale, colour: theme.note });
	}, [busy, whole, reach, span, theme, width, matches, notes]);
	const jump = (event: PointerEvent) => {
		if (event.type === "pointermove" && event.buttons !== 1) return;
		const box = canvas.current!.getBoundingClientRect();
		const at = reach.begin + ((reach.end - reach.begin) * (event.clientX - box.left)) / box.width;
		const half = (span.end - span.begin) / 2;
		move({ begin: at - half, end: at + half });
	};
	return (
		<div class="overview">
			{heading ?? <span class="faint">{lanes.hasKernel ? "CPUs" : "Programs"}</span>}
			<canvas
				ref={canvas}
				role="img"
				aria-label={lanes.hasKernel ? "How busy the CPUs were" : "When programs recorded events"}
				onPointerDown={jump}
				onPointerMove={jump}
			/>
		</div>
	);
}

/** How busy it was, between the pixels to which the recording reaches. */
function busyPicture(
	busy: Shares | null,
	theme: Theme,
	{ begin, end }: Span,
	{ width, height, scale }: { width: number; height: number; scale: number },
): HTMLCanvasElement {
	const picture = document.createElement("canvas");
	picture.width = width;
	picture.height = height;
	const context = picture.getContext("2d")!;
	const room = height - 4 * scale;
	const wide = (end - begin) / OVERVIEW_COLUMNS;
	for (let column = 0; busy && column < OVERVIEW_COLUMNS; column++) {
		const left = begin + column * wide;
		const high = busy.busy[column]! * room;
		const unknown = busy.unknown[column]! * room;
		context.fillStyle = css(theme.classes.kernel);
		context.fillRect(left, height - high, wide + 0.5, high);
		context.fillStyle = css(theme.classes.unknown);
		// Lines: hatched, as everywhere.
		for (let y = 0; y < unknown; y += 4 * scale) {
			context.fillRect(left, height - high - y - scale, wide + 0.5, scale);
		}
	}
	return picture;
}

/** For each column: the shares of the lanes' time in which they were busy, and in which their state is unknown. */
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
