// SPDX-License-Identifier: MIT OR Apache-2.0
// Icons of the control-flow view: what a thread begins to do. Each is one path, so the canvas, saved pictures and the help draw the same.
import type { Pieces } from "./api";
import { CLASSES, css, type Theme } from "./colours";

/** Of the square that a path lies in, with a margin (CSS pixels). As even as the line below it, so that both have the same middle. */
export const ICON_SIZE = 10;
/** How much room an icon needs from the begin of what it is about (CSS pixels). */
export const ICON_ROOM = 14;
/** From that begin, where there may be a line from another thread, to the icon (CSS pixels). */
export const ICON_INSET = 2;
/** Of the edge that sets an icon off from the line below it (CSS pixels). */
export const ICON_EDGE = 1.5;

/** With what they mean. Parts inside others are holes. */
export const ICONS = {
	run: { path: "M2 .5L9.5 5L2 9.5Z", what: "runs" },
	call: { path: "M.5 1.5H9.5L5 9Z", what: "calls the kernel" },
	interrupt: { path: "M6 0L1.5 6H4.5L4 10L8.5 4H5.5Z", what: "is interrupted" },
	ready: { path: "M2 .5L9.5 5L2 9.5ZM3.3 2.8V7.2L7 5Z", what: "waits for a CPU" },
	wait: { path: "M1 1H4V9H1ZM6 1H9V9H6Z", what: "is blocked" },
	stop: { path: "M1 1H9V9H1Z", what: "is stopped" },
	end: { path: "M2.4 1L5 3.6L7.6 1L9 2.4L6.4 5L9 7.6L7.6 9L5 6.4L2.4 9L1 7.6L3.6 5L1 2.4Z", what: "has ended" },
} as const;
export type IconName = keyof typeof ICONS;
export const ICON_NAMES = Object.keys(ICONS) as IconName[];

/** An icon in a picture: its upper left corner, in pixels of the canvas. */
export interface Icon {
	name: IconName;
	x: number;
	y: number;
}

/** What a thread begins to do with a piece. A system call that goes on after a wait or an interrupt is no new one. */
export function iconOf(data: Pieces, index: number): IconName | null {
	switch (CLASSES[data.classes[index]!]) {
		case "running":
		case "user":
			return "run";
		case "kernel":
			return data.what[index] !== 0 && isFromProgram(data, index) ? "call" : "run";
		case "interrupted":
			return "interrupt";
		case "runnable":
			return "ready";
		case "blocked":
			return "wait";
		case "stopped":
			return "stop";
		default:
			return null;
	}
}

/** Whether the program itself ran just before a piece. */
function isFromProgram({ begin, duration, classes }: Pieces, index: number): boolean {
	const before = index - 1;
	if (before < 0 || begin[before]! + duration[before]! !== begin[index]) return false;
	return ["user", "running"].includes(CLASSES[classes[before]!]!);
}

/** A thread ends on a CPU: where nothing follows what it did there, it has ended. */
export const canEnd = (data: Pieces, index: number): boolean =>
	["running", "user", "kernel", "interrupted"].includes(CLASSES[data.classes[index]!]!);

export function drawIcon(
	context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D,
	{ name, x, y }: Icon,
	theme: Theme,
	scale: number,
): void {
	const path = new Path2D(ICONS[name].path);
	context.save();
	context.setTransform(scale, 0, 0, scale, x, y);
	context.fillStyle = css(theme.text);
	context.strokeStyle = css(theme.background);
	// Half of it is below the icon.
	context.lineWidth = 2 * ICON_EDGE;
	context.lineJoin = "round";
	context.stroke(path);
	context.fill(path, "evenodd");
	context.restore();
}

/** The pixels of all icons, which are copied into pictures: thousands of paths would take too long. */
export class IconSheet {
	/** Around an icon. */
	private readonly margin: number;
	private readonly side: number;
	private readonly sheet: Map<IconName, Uint32Array>;

	constructor(
		readonly theme: Theme,
		readonly scale: number,
	) {
		const margin = Math.ceil(ICON_EDGE * scale);
		const side = Math.ceil(ICON_SIZE * scale) + 2 * margin;
		this.margin = margin;
		this.side = side;
		const context = new OffscreenCanvas(side, side).getContext("2d", { willReadFrequently: true })!;
		const pixelsOf = (name: IconName) => {
			context.clearRect(0, 0, side, side);
			drawIcon(context, { name, x: margin, y: margin }, theme, scale);
			return new Uint32Array(context.getImageData(0, 0, side, side).data.buffer);
		};
		this.sheet = new Map(ICON_NAMES.map((name) => [name, pixelsOf(name)]));
	}

	/** Copies an icon onto opaque pixels that lie in rows of a width. */
	copy({ name, x, y }: Icon, pixels: Uint32Array, width: number): void {
		const { side, margin } = this;
		const own = this.sheet.get(name)!;
		const [left, top] = [x - margin, y - margin];
		const bottom = Math.min(side, pixels.length / width - top);
		const right = Math.min(side, width - left);
		for (let row = Math.max(0, -top); row < bottom; row++) {
			for (let column = Math.max(0, -left); column < right; column++) {
				const above = own[row * side + column]!;
				if (above === 0) continue;
				const place = (top + row) * width + left + column;
				pixels[place] = above >>> 24 === 255 ? above : mixed(above, pixels[place]!);
			}
		}
	}
}

/** A pixel that lets another one through. */
function mixed(above: number, below: number): number {
	const opacity = (above >>> 24) / 255;
	let all = 255 << 24;
	for (let shift = 0; shift < 24; shift += 8) {
		const part = ((above >> shift) & 255) * opacity + ((below >> shift) & 255) * (1 - opacity);
		all |= Math.round(part) << shift;
	}
	return all >>> 0;
}
