// SPDX-License-Identifier: MIT OR Apache-2.0
// What is drawn of a lane: one row of pixels, and which of them are hatched. The colours of what tiles have are computed once, so that a frame only
// copies them.

import type { Columns, Pieces } from "./api";
import type { Area } from "./areas";
import { CLASSES, colourOf, opaque, type Rgb, type Theme } from "./colours";
import type { LaneRow, Names } from "./rows";
import type { Found, Strip, Tile } from "./tiles";

const LABEL_WIDTH_MIN = 34;
const UNKNOWN = CLASSES.indexOf("unknown");
const IDLE = CLASSES.indexOf("idle");
const BLOCKED = CLASSES.indexOf("blocked");
const INTERRUPTED = CLASSES.indexOf("interrupted");
/** Lanes whose pieces have the colours of their names. */
const NAMED = ["calls", "spans", "events"];
/** The width of an event, which takes no time (CSS pixels). */
const EVENT_WIDTH = 2;

/** Where a lane is drawn: a row of pixels, which are hatched, and between which heights. */
export interface Band {
	line: Uint32Array;
	hatched: Uint8Array;
	/** Some may be. */
	isHatched: boolean;
	/** Of a lane of numbers: it is drawn instead. */
	area: Area | null;
	top: number;
	bottom: number;
}

/** The band of a lane, while it is made. */
export interface LaneBand extends Band {
	row: LaneRow;
	texts: Text[];
}

/** A name in a lane, in pixels. */
export interface Text {
	text: string;
	x: number;
	top: number;
	bottom: number;
	width: number;
	colour: string;
}

/** A part of the picture that a tile covers, in pixels. */
export class Part {
	private readonly columns = new Map<Tile, Int32Array>();

	constructor(
		readonly left: number,
		readonly right: number,
		/** Of the picture. */
		readonly begin: number,
		readonly nsPerPixel: number,
	) {}

	/** The column of a tile at each pixel of this part, the same for all lanes. It may be one that the tile does not have. */
	columnsOf(tile: Tile): Int32Array {
		let columns = this.columns.get(tile);
		if (!columns) {
			columns = new Int32Array(Math.max(0, this.right - this.left));
			for (let index = 0; index < columns.length; index++) {
				const x = this.left + index;
				columns[index] = Math.floor((this.begin + (x + 0.5) * this.nsPerPixel - tile.begin) / tile.columnNs);
			}
			this.columns.set(tile, columns);
		}
		return columns;
	}
}

/** How lanes are drawn. */
export interface Style {
	names: Names;
	theme: Theme;
	/** Pixels per CSS pixel. */
	scale: number;
}

/** Draws a strip of columns. */
export function drawColumns(band: LaneBand, { tile, strip }: Found, part: Part, style: Style): void {
	const { line, hatched } = band;
	const { pixels, hatched: unknown } = coloursOf(band.row, strip, style);
	const columns = part.columnsOf(tile);
	if (unknown) band.isHatched = true;
	for (let index = 0; index < columns.length; index++) {
		const column = columns[index]!;
		if (column < 0 || column >= pixels.length) continue;
		line[part.left + index] = pixels[column]!;
		if (unknown) hatched[part.left + index] = unknown[column]!;
	}
}

/** Draws a strip of pieces. */
export function drawPieces(band: LaneBand, { tile, strip }: Found, part: Part, style: Style): void {
	const { row, line, hatched, top, bottom, texts } = band;
	const { left, right, begin, nsPerPixel } = part;
	const { names, theme, scale } = style;
	const data = strip.data as Pieces;
	const { pixels, hatched: unknown } = coloursOf(row, strip, style);
	if (unknown) band.isHatched = true;
	const narrow = row.lane.kind === "events" ? Math.round(EVENT_WIDTH * scale) : 1;
	// What is unknown hides nothing, and nothing hides pieces that are narrower than a pixel.
	for (let layer = unknown ? 0 : 1; layer < 3; layer++) {
		for (let index = 0; index < pixels.length; index++) {
			const from = (tile.begin + data.begin[index]! - begin) / nsPerPixel;
			const until = from + data.duration[index]! / nsPerPixel;
			const isNarrow = until - from < 1;
			const isUnknown = unknown !== null && unknown[index] === 1;
			if ((isNarrow ? 2 : isUnknown ? 0 : 1) !== layer) continue;
			const x0 = Math.max(left, isNarrow ? Math.floor(from) : Math.round(from));
			const x1 = Math.min(right, isNarrow ? Math.floor(from) + narrow : Math.round(until));
			if (x1 <= x0) continue;
			const colour = pixels[index]!;
			// Most are so narrow that `fill` would take longer.
			for (let x = x0; x < x1; x++) line[x] = colour;
			if (unknown) hatched.fill(isUnknown && !isNarrow ? 1 : 0, x0, x1);
			const room = Math.min(until, line.length) - x0;
			if (room <= LABEL_WIDTH_MIN * scale) continue;
			// One that goes on in the next tile is named where it begins.
			const isBegin = x0 === Math.max(0, Math.round(from));
			const number = data.classes[index]!;
			const hasText = number !== IDLE && (!isUnknown || row.lane.kind === "spans");
			if (!isBegin || !hasText) continue;
			const text = names.said(strip.labels.get(data.what[index]!));
			const ink = number === BLOCKED || isUnknown ? theme.faint : "#ffffff";
			if (text) texts.push({ text, x: x0, top, bottom, width: room, colour: ink });
		}
	}
}

/** Of the columns or pieces of a strip: computed when they are drawn first. */
function coloursOf(row: LaneRow, strip: Strip, style: Style): NonNullable<Strip["colours"]> {
	const theme = style.theme.name;
	if (strip.colours?.theme !== theme) {
		const tint = tintsOf(row, strip, style);
		const { data } = strip;
		strip.colours = {
			theme,
			...(data.kind === "columns" ? coloursOfColumns(row, data, tint, style.theme) : coloursOfPieces(data, tint)),
		};
	}
	return strip.colours;
}

/** The colour of a class, and of what it is. */
type Tint = (number: number, what: number) => Rgb;

function tintsOf({ lane: { kind } }: LaneRow, { labels }: Strip, { names, theme }: Style): Tint {
	const plain = CLASSES.map((name) => theme.classes[name]);
	const isNamed = CLASSES.map((_, number) => {
		if (number === UNKNOWN || number === INTERRUPTED) return false;
		return kind === "cpu" ? number !== IDLE : NAMED.includes(kind);
	});
	const named = new Map<number, Rgb | null>();
	return (number, what) => {
		if (!isNamed[number]) return plain[number]!;
		let colour = named.get(what);
		if (colour === undefined) {
			const label = labels.get(what);
			colour = label ? colourOf(names.said(label)) : null;
			named.set(what, colour);
		}
		return colour ?? plain[number]!;
	};
}

type Colours = Omit<NonNullable<Strip["colours"]>, "theme">;

/** Each class has as much of a column as it has of the time. */
function coloursOfColumns({ lane }: LaneRow, data: Columns, tint: Tint, { background }: Theme): Colours {
	const pixels = new Uint32Array(data.masks.length);
	const isEvents = lane.kind === "events";
	let hatched: Uint8Array | null = null;
	let next = 0;
	for (let column = 0; column < pixels.length; column++) {
		const mask = data.masks[column]!;
		let red = 0;
		let green = 0;
		let blue = 0;
		let sum = 0;
		for (let left = mask; left !== 0; left &= left - 1) {
			const number = 31 - Math.clz32(left & -left);
			const share = data.shares[next++]!;
			// Events take no time, and would not be seen beside anything.
			if (isEvents && number === UNKNOWN && mask !== 1 << UNKNOWN) continue;
			const colour = tint(number, data.longestClass[column] === number ? data.longest[column]! : 0);
			if (number === UNKNOWN && share > 127) {
				hatched ??= new Uint8Array(pixels.length);
				hatched[column] = 1;
			}
			red += colour[0] * share;
			green += colour[1] * share;
			blue += colour[2] * share;
			sum += share;
		}
		const rest = isEvents && sum > 0 ? 0 : Math.max(0, 255 - sum);
		const all = sum + rest;
		pixels[column] = opaque(
			Math.round((red + background[0] * rest) / all),
			Math.round((green + background[1] * rest) / all),
			Math.round((blue + background[2] * rest) / all),
		);
	}
	return { pixels, hatched };
}

function coloursOfPieces(data: Pieces, tint: Tint): Colours {
	const pixels = new Uint32Array(data.classes.length);
	let hatched: Uint8Array | null = null;
	for (let index = 0; index < pixels.length; index++) {
		const number = data.classes[index]!;
		const [red, green, blue] = tint(number, data.what[index]!);
		pixels[index] = opaque(red, green, blue);
		if (number === UNKNOWN) {
			hatched ??= new Uint8Array(pixels.length);
			hatched[index] = 1;
		}
	}
	return { pixels, hatched };
}
