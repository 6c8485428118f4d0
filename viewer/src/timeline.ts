// SPDX-License-Identifier: MIT OR Apache-2.0
// The picture of the lanes, on a canvas; a worker draws it (worker.ts). A lane is one row of pixels (bands.ts) that is copied over its height
// (raster.ts): so a frame costs the same however much happened.

import type { Columns, Lane, Pieces } from "./api";
import { Area, stripBins } from "./areas";
import { type Band, drawColumns, drawPieces, type LaneBand, Part, type Text } from "./bands";
import { CLASS_NAMES, CLASSES, css, pixel, type Theme } from "./colours";
import { columnText, MEANINGS, valueText } from "./counters";
import { drawFlags } from "./flags";
import { CPUS_MAX, stripHandovers } from "./flow";
import { canEnd, ICON_INSET, ICON_ROOM, ICON_SIZE, type Icon, type IconName, IconSheet, iconOf } from "./icons";
import type { Note } from "./notes";
import { type Line as PathLine, pathLines, type Segment } from "./path";
import { type Line, Raster } from "./raster";
import { type Names, type Row, seenOf } from "./rows";
import { type Found, levelOf, stripOf, TILE_COLUMNS, type Tile, type Tiles } from "./tiles";
import { duration, moment, niceStep } from "./time";

export const AXIS_HEIGHT = 26;
const GAP = 2;
/** Of a lane that is a line (CSS pixels). */
const LINE_HEIGHT = 6;
const UNKNOWN = CLASSES.indexOf("unknown");
/** The width of an arrow's line (CSS pixels). */
export const ARROW_WIDTH = 1.5;
/** A pointer that is so close to an event means it (CSS pixels). */
const EVENT_REACH = 3;

/** A part of time, in ns from the beginning of the recording. */
export interface Span {
	begin: number;
	end: number;
}

/** What is under the pointer. */
export interface Hit {
	lane: number;
	/** In ns from the beginning of the recording; of an event, which takes no time, its own. */
	at: number;
	lines: string[];
}

export interface Scene {
	span: Span;
	/** What is outside is hatched: it is not covered. Absent: that is plain. */
	ends: Span | null;
	/** The end of the recording: a thread that has nothing up to it has ended. Absent: there will be more. */
	end: number | null;
	/** A time that is pointed at elsewhere. */
	cursor: number | null;
	rows: Row[];
	/** Threads and interrupts are lines (flow.ts). */
	isFlow: boolean;
	/** Pixels (CSS) of rows above the first that is seen. */
	scroll: number;
	/** With the lane of the thread that ended it, of the one that created the thread, and the next wait that the thread ended. */
	selected: {
		lane: number;
		span: Span | null;
		waker: number | null;
		creator: number | null;
		wakes: { lane: number; at: number } | null;
	} | null;
	/** The critical path. */
	path: Segment[];
	range: Span | null;
	marks: number[];
	notes: readonly Note[];
}

/** How large a picture is, in CSS pixels, and how many pixels each of them has. */
export interface Size {
	width: number;
	height: number;
	scale: number;
}

export class Picture {
	private readonly context: OffscreenCanvasRenderingContext2D;
	private size: Size = { width: 0, height: 0, scale: 1 };
	private raster: Raster | null = null;
	private sheet: IconSheet | null = null;

	constructor(
		readonly canvas: OffscreenCanvas,
		private readonly tiles: Tiles,
		public names: Names,
	) {
		this.context = canvas.getContext("2d", { alpha: false })!;
	}

	/** The critical path, along the lower edges of the lanes that are seen. */
	static path(scene: Scene, seen: { row: Row; top: number }[], width: number, scale: number, theme: Theme): PathLine[] {
		if (scene.path.length === 0) return [];
		const edge = ({ row, top }: { row: Row; top: number }) => (AXIS_HEIGHT + top + row.height - GAP - 2.5) * scale;
		const heights = new Map(seen.flatMap((place) => (place.row.lane ? [[place.row.lane.id, edge(place)]] : [])));
		return pathLines(scene.path, heights, { span: scene.span, width, scale, theme });
	}

	draw(scene: Scene, theme: Theme, size: Size): void {
		const { canvas, context } = this;
		this.size = size;
		const { scale } = size;
		const width = Math.max(1, Math.round(size.width * scale));
		const height = Math.max(1, Math.round(size.height * scale));
		if (canvas.width !== width || canvas.height !== height || !this.raster) {
			canvas.width = width;
			canvas.height = height;
			this.raster = new Raster(context.createImageData(width, height));
		}
		const { raster } = this;
		const axisBottom = Math.round(AXIS_HEIGHT * scale);
		raster.begin(theme);
		const { texts, scales, lines, icons } = this.each(scene, theme, (band) => raster.band(band, axisBottom));
		raster.end();
		const thickness = Math.max(1, Math.round(scale));
		for (const line of lines) raster.line(line, thickness, pixel(theme.text));
		if (this.sheet?.theme !== theme || this.sheet.scale !== scale) this.sheet = new IconSheet(theme, scale);
		for (const icon of icons) this.sheet.copy(icon, raster.pixels, width);
		raster.show(context);
		this.text(texts, scale);
		this.scales(scales, theme, scale);
		const seen = seenOf(scene, size.height - AXIS_HEIGHT);
		this.marks(scene, seen, theme, scale, (scene.span.end - scene.span.begin) / width, width, height);
		this.axis(scene, theme, scale, width);
		const strip = { width, height: axisBottom, scale, colour: theme.note };
		drawFlags(context, scene.notes, scene.span, strip);
	}

	/** Hands out what is drawn of each row that is seen, in pixels of the canvas; it is valid until the next one. Returns what lies on them. */
	each(scene: Scene, theme: Theme, to: (band: Band) => void): Above {
		const { width } = this.canvas;
		const { scale } = this.size;
		const style = { names: this.names, theme, scale };
		const { begin, end } = scene.span;
		const nsPerPixel = (end - begin) / width;
		const level = levelOf(nsPerPixel);
		const tileNs = 2 ** level * TILE_COLUMNS;
		const [first, last] = [Math.floor(begin / tileNs), Math.floor(end / tileNs)];
		const seen = seenOf(scene, this.size.height - AXIS_HEIGHT);
		const cpus = scene.isFlow ? this.names.cpus.slice(0, CPUS_MAX) : [];
		this.tiles.want(level, first, last, [...new Set([...seen.flatMap(({ row }) => row.lane?.id ?? []), ...cpus])]);
		const places: { tiles: Tile[]; part: Part }[] = [];
		for (let index = first; index <= last; index++) {
			const left = Math.max(0, Math.round((index * tileNs - begin) / nsPerPixel));
			const right = Math.min(width, Math.round(((index + 1) * tileNs - begin) / nsPerPixel));
			places.push({ tiles: this.tiles.at(level, index), part: new Part(left, right, begin, nsPerPixel) });
		}
		const texts: Text[] = [];
		const scales: { text: string; top: number }[] = [];
		const icons: Icon[] = [];
		const line = new Uint32Array(width);
		const hatched = new Uint8Array(width);
		for (const { row, top } of seen) {
			const isLine = scene.isFlow && (row.lane?.kind === "thread" || row.lane?.kind === "interrupt");
			const margin = isLine ? (row.height - GAP - LINE_HEIGHT) / 2 : 0;
			const from = Math.round((AXIS_HEIGHT + top + margin) * scale);
			const until = Math.round((AXIS_HEIGHT + top + row.height - GAP - margin) * scale);
			const empty = { line, hatched, isHatched: false, area: null, top: from, bottom: until };
			hatched.fill(0);
			if (!row.lane) {
				line.fill(pixel(theme.stripe));
				to(empty);
				continue;
			}
			line.fill(pixel(theme.background));
			const area = row.lane.kind === "counter" ? new Area(row.lane, width) : null;
			const band: LaneBand = { ...empty, row, area, texts: isLine ? [] : texts };
			for (const { tiles, part } of places) {
				const found = stripOf(tiles, row.lane.id);
				if (!found) continue;
				if (area) area.add(found, part);
				else if (found.strip.data.kind === "columns") drawColumns(band, found, part, style);
				else {
					drawPieces(band, found, part, style);
					if (isLine && row.lane.kind === "thread") icons.push(...this.icons(band, found, part, scene.end));
				}
			}
			if (area) scales.push({ text: area.scale, top: from });
			if (scene.ends) {
				const left = Math.max(0, Math.round((scene.ends.begin - begin) / nsPerPixel));
				const right = Math.max(0, Math.round((scene.ends.end - begin) / nsPerPixel));
				for (const [from, until] of [
					[0, left],
					[right, width],
				] as const) {
					line.fill(pixel(theme.classes.unknown), from, until);
					hatched.fill(1, from, until);
				}
				band.isHatched ||= left > 0 || right < width;
			}
			to(band);
		}
		const flow = { begin, nsPerPixel, width };
		const lines: Line[] = [];
		for (const { tiles } of places) {
			for (const cpu of cpus) lines.push(...this.handovers(stripOf(tiles, cpu), seen, flow, scale));
		}
		return { texts, scales, lines, icons };
	}

	private text(texts: Text[], scale: number): void {
		const { context } = this;
		context.font = `${11 * scale}px system-ui, sans-serif`;
		context.textBaseline = "middle";
		context.textAlign = "left";
		for (const { text, x, top, bottom, width, colour } of texts) {
			const short = shortened(text, width / scale);
			if (!short || bottom < AXIS_HEIGHT * scale) continue;
			context.fillStyle = colour;
			context.fillText(short, x + 4 * scale, (top + bottom) / 2);
		}
	}

	/** What a thread begins to do, where there is room to show it. */
	private icons(
		{ top, bottom }: LaneBand,
		{ tile, strip }: Found,
		{ left, right, begin, nsPerPixel }: Part,
		endOfAll: number | null,
	): Icon[] {
		const data = strip.data as Pieces;
		const { scale } = this.size;
		const y = Math.round((top + bottom - ICON_SIZE * scale) / 2);
		const roomNs = ICON_ROOM * scale * nsPerPixel;
		const icons: Icon[] = [];
		const put = (name: IconName | null, from: number) => {
			if (name) icons.push({ name, x: Math.round(from + ICON_INSET * scale), y });
		};
		const at = (ns: number) => (tile.begin + ns - begin) / nsPerPixel;
		// One that goes on in the next tile has its icon where it begins.
		const isHere = (from: number) => from >= left && from < right;
		for (let index = 0; index < data.begin.length; index++) {
			const from = at(data.begin[index]!);
			if (data.duration[index]! >= roomNs && isHere(from)) put(iconOf(data, index), from);
		}
		const last = data.begin.length - 1;
		if (endOfAll === null || last < 0 || !canEnd(data, last)) return icons;
		const end = data.begin[last]! + data.duration[last]!;
		if (tile.begin + end < endOfAll && isHere(at(end))) put("end", at(end));
		return icons;
	}

	/** Where a CPU goes from one lane that is seen to another. */
	private handovers(
		found: Found | null,
		seen: { row: Row; top: number }[],
		{ begin, nsPerPixel, width }: Pick<Part, "begin" | "nsPerPixel"> & { width: number },
		scale: number,
	): Line[] {
		if (!found) return [];
		const lines: Line[] = [];
		const middles = new Map(
			seen.map(({ row, top }) => [row.lane?.id, (AXIS_HEIGHT + top + (row.height - GAP) / 2) * scale]),
		);
		for (const { ns, from, to } of stripHandovers(found.strip, this.names, found.tile.columnNs * TILE_COLUMNS)) {
			const [one, other] = [middles.get(from), middles.get(to)];
			const x = Math.round((found.tile.begin + ns - begin) / nsPerPixel);
			if (one === undefined || other === undefined || x < 0 || x >= width) continue;
			const reach = (LINE_HEIGHT / 2) * scale;
			lines.push({ x, top: Math.min(one, other) - reach, bottom: Math.max(one, other) + reach });
		}
		return lines;
	}

	/** What the tops of lanes of numbers stand for. */
	private scales(scales: { text: string; top: number }[], theme: Theme, scale: number): void {
		const { context } = this;
		context.font = `${9.5 * scale}px system-ui, sans-serif`;
		context.textBaseline = "top";
		context.textAlign = "left";
		context.lineWidth = 3 * scale;
		context.lineJoin = "round";
		for (const { text, top } of scales) {
			if (top < (AXIS_HEIGHT - 4) * scale) continue;
			// Legible on the area, too.
			context.strokeStyle = css(theme.background);
			context.strokeText(text, 4 * scale, top + scale);
			context.fillStyle = theme.faint;
			context.fillText(text, 4 * scale, top + scale);
		}
	}

	private marks(
		scene: Scene,
		seen: { row: Row; top: number }[],
		theme: Theme,
		scale: number,
		nsPerPixel: number,
		width: number,
		height: number,
	): void {
		const { context } = this;
		const x = (ns: number) => (ns - scene.span.begin) / nsPerPixel;
		if (scene.range) {
			const left = Math.min(width, Math.max(0, x(scene.range.begin)));
			const right = Math.max(left + 1, Math.min(width, x(scene.range.end)));
			// What is outside fades.
			context.fillStyle = theme.name === "dark" ? "#18191bb0" : "#ffffffb0";
			context.fillRect(0, 0, left, height);
			context.fillRect(right, 0, width - right, height);
			context.fillStyle = theme.faint;
			context.fillRect(left, 0, scale, height);
			context.fillRect(right - scale, 0, scale, height);
		}
		for (const mark of scene.marks) {
			context.fillStyle = css(theme.classes.runnable);
			context.fillRect(Math.round(x(mark)), 0, Math.max(1, scale), height);
		}
		if (scene.cursor !== null) {
			context.fillStyle = theme.faint;
			context.fillRect(Math.round(x(scene.cursor)), 0, Math.max(1, scale), height);
		}
		for (const { d, width: thickness, colour } of Picture.path(scene, seen, width, scale, theme)) {
			context.strokeStyle = colour;
			context.lineWidth = thickness;
			context.stroke(new Path2D(d));
		}
		const selected = scene.selected;
		const place = seen.find(({ row }) => row.lane && row.lane.id === selected?.lane);
		if (selected?.span && place) {
			const left = Math.max(-4, x(selected.span.begin));
			const right = Math.min(width + 4, Math.max(x(selected.span.end), left + 2));
			context.strokeStyle = theme.selection;
			context.lineWidth = 2 * scale;
			const top = (AXIS_HEIGHT + place.top) * scale;
			context.strokeRect(left, top, right - left, (place.row.height - GAP) * scale);
		}
		context.strokeStyle = theme.selection;
		context.fillStyle = theme.selection;
		context.lineWidth = ARROW_WIDTH * scale;
		for (const { line, head, dot } of Picture.arrows(scene, seen, width, scale)) {
			context.stroke(new Path2D(line));
			context.fill(new Path2D(head));
			context.beginPath();
			context.arc(dot.x, dot.y, dot.radius, 0, 2 * Math.PI);
			context.fill();
		}
	}

	/** From the thread that ends a wait to the one that waited, and from a thread to one that it creates: those of the selected piece. */
	static arrows(scene: Scene, seen: { row: Row; top: number }[], width: number, scale: number): Arrow[] {
		const { selected, span } = scene;
		const arrows: Arrow[] = [];
		const middle = (lane: number | null) => {
			const found = seen.find(({ row }) => row.lane && row.lane.id === lane);
			return found && (AXIS_HEIGHT + found.top + (found.row.height - GAP) / 2) * scale;
		};
		const add = (from: number | null, to: number, ns: number) => {
			const [one, other] = [middle(from), middle(to)];
			if (one === undefined || other === undefined || one === other) return;
			const x = rounded(((ns - span.begin) / (span.end - span.begin)) * width);
			const [reach, base] = [4 * scale, other - Math.sign(other - one) * 6 * scale];
			arrows.push({
				line: `M${x} ${one}V${base}`,
				head: `M${x} ${other}L${rounded(x - reach)} ${base}H${rounded(x + reach)}Z`,
				dot: { x, y: one, radius: 3 * scale },
			});
		};
		if (selected?.span) {
			add(selected.waker, selected.lane, selected.span.end);
			add(selected.creator, selected.lane, selected.span.begin);
		}
		if (selected?.wakes) add(selected.lane, selected.wakes.lane, selected.wakes.at);
		return arrows;
	}

	private axis({ span }: Scene, theme: Theme, scale: number, width: number): void {
		const { context } = this;
		context.fillStyle = css(theme.background);
		context.fillRect(0, 0, width, AXIS_HEIGHT * scale);
		context.fillStyle = theme.line;
		context.fillRect(0, AXIS_HEIGHT * scale - scale, width, scale);
		context.font = `${11 * scale}px system-ui, sans-serif`;
		context.textBaseline = "middle";
		for (const { x, text } of ticks(span, width, 120 * scale)) {
			context.fillStyle = theme.line;
			context.fillRect(x, 0, scale, AXIS_HEIGHT * scale);
			context.fillStyle = theme.faint;
			context.fillText(text, x + 5 * scale, (AXIS_HEIGHT / 2) * scale);
		}
	}

	/** What is at a place of the canvas (CSS pixels). */
	hit(scene: Scene, x: number, y: number): Hit | null {
		const { width, height, scale } = this.size;
		const seen = seenOf(scene, height - AXIS_HEIGHT);
		const place = seen.find(({ row, top }) => y - AXIS_HEIGHT >= top && y - AXIS_HEIGHT < top + row.height);
		if (y < AXIS_HEIGHT || !place?.row.lane) return null;
		const { lane } = place.row;
		const { span } = scene;
		const nsPerPixel = (span.end - span.begin) / (width * scale);
		const at = span.begin + ((span.end - span.begin) * x) / width;
		const level = levelOf(nsPerPixel);
		const found = stripOf(this.tiles.at(level, Math.floor(at / (2 ** level * TILE_COLUMNS))), lane.id);
		if (!found) return { lane: lane.id, at, lines: [] };
		const { data } = found.strip;
		if (data.kind === "columns") return { lane: lane.id, at, lines: this.columnLines(lane, found, data, at) };
		const index = pieceAt(data, at - found.tile.begin, nsPerPixel * scale);
		if (index < 0) return { lane: lane.id, at, lines: [] };
		const isEvent = data.duration[index] === 0;
		return {
			lane: lane.id,
			at: isEvent ? found.tile.begin + data.begin[index]! : at,
			lines: this.pieceLines(lane, found, data, index),
		};
	}

	private pieceLines(lane: Lane, { strip }: Found, data: Pieces, index: number): string[] {
		const what = this.names.said(strip.labels.get(data.what[index]!));
		const by = strip.labels.get(data.by[index]!)?.text;
		const state = CLASS_NAMES[CLASSES[data.classes[index]!]!];
		const length = data.duration[index] === 0 ? "" : `, ${duration(data.duration[index]!)}`;
		if (lane.quantity && data.classes[index] !== UNKNOWN) {
			const value = `${valueText(data.values[index]!, MEANINGS[lane.quantity])}${length}`;
			return by ? [value, `by ${by}`] : [value];
		}
		const lines = [`${what || state}${length}`];
		if (what && state !== "active") lines.push(state);
		if (by) lines.push(state === "interrupted" ? `interrupts ${by}` : `${state === "active" ? "" : "ended "}by ${by}`);
		return lines;
	}

	private columnLines(lane: Lane, { tile, strip }: Found, data: Columns, at: number): string[] {
		const column = Math.floor((at - tile.begin) / tile.columnNs);
		if (lane.quantity) {
			return columnText(stripBins(strip, tile), column, MEANINGS[lane.quantity], tile.columnNs);
		}
		let next = 0;
		for (let index = 0; index < column; index++) for (let rest = data.masks[index]!; rest; rest &= rest - 1) next++;
		const lines = [];
		const mask = data.masks[column] ?? 0;
		for (let number = 0; mask >> number !== 0; number++) {
			if (((mask >> number) & 1) === 0) continue;
			const share = data.shares[next++]! / 255;
			lines.push({ share, text: `${Math.max(1, Math.round(share * 100))} % ${CLASS_NAMES[CLASSES[number]!]}` });
		}
		const what = this.names.said(strip.labels.get(data.longest[column] ?? 0));
		const texts = lines.sort((one, other) => other.share - one.share).map(({ text }) => text);
		return what ? [...texts, `longest: ${what}`] : texts;
	}
}

const rounded = (pixels: number): number => Math.round(pixels * 100) / 100;

/** The marks of an axis, at least so many pixels apart. */
export function ticks(span: Span, width: number, apart: number): { x: number; text: string }[] {
	const nsPerPixel = (span.end - span.begin) / width;
	const step = niceStep(nsPerPixel * apart);
	const found = [];
	const first = Math.ceil(span.begin / step);
	for (let number = first; number * step <= span.end && number - first < 1000; number++) {
		found.push({ x: Math.round((number * step - span.begin) / nsPerPixel), text: moment(number * step, step) });
	}
	return found;
}

/** A text that has so much room (CSS pixels); empty: there is none. */
export function shortened(text: string, width: number): string {
	const room = Math.floor((width - 8) / 6.2);
	return room < 2 ? "" : text.length > room ? `${text.slice(0, room - 1)}…` : text;
}

/** The piece at a time, or else an event or a short one close to it: of several the shortest, which is drawn on top. -1: there is none. */
function pieceAt(data: Pieces, at: number, nsPerPixel: number): number {
	let found = -1;
	for (let index = 0; index < data.begin.length; index++) {
		const begin = data.begin[index]!;
		const length = data.duration[index]!;
		const [before, room] = length === 0 ? [EVENT_REACH * nsPerPixel, EVENT_REACH * nsPerPixel] : [0, nsPerPixel];
		const isThere = at >= begin - before && at < begin + Math.max(length, room);
		if (isThere && (found < 0 || length <= data.duration[found]!)) found = index;
	}
	return found;
}

/** An arrow from one lane to another: paths as SVG writes them, and a dot where it begins. */
export interface Arrow {
	line: string;
	head: string;
	dot: { x: number; y: number; radius: number };
}

/** What lies on the bands, in pixels. */
export interface Above {
	texts: Text[];
	/** What the tops of lanes of numbers stand for. */
	scales: { text: string; top: number }[];
	/** From one lane to another. */
	lines: Line[];
	/** What threads begin to do. */
	icons: Icon[];
}
