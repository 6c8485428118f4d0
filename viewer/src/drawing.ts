// SPDX-License-Identifier: MIT OR Apache-2.0
// The view as a file: as SVG, in which every part is a shape or a text, and as PNG. Both show the names of the lanes, what is drawn of them, the
// axis, and what the colours mean.
import type { Area } from "./areas";
import { CLASS_NAMES, CLASSES, type Class, css, pixel, type Theme } from "./colours";
import { drawIcon, ICON_EDGE, ICON_NAMES, ICON_SIZE, ICONS, type IconName } from "./icons";
import { indentOf, type Row, seenOf } from "./rows";
import { type Above, ARROW_WIDTH, AXIS_HEIGHT, Picture, type Scene, type Size, shortened, ticks } from "./timeline";

/** CSS pixels. */
const NAMES_WIDTH = 260;
const LEGEND_HEIGHT = 30;
const LEGEND_STEP = 150;
const FONT = "system-ui, sans-serif";

/** A rectangle of a lane, in pixels of the canvas. */
interface Run {
	x: number;
	y: number;
	width: number;
	height: number;
	colour: string;
	isHatched: boolean;
}

/** What is drawn of the lanes, as rectangles: neighbours of the same colour are one. */
function runsOf(picture: Picture, scene: Scene, theme: Theme): Above & { runs: Run[] } {
	const runs: Run[] = [];
	const nothing = pixel(theme.background);
	const above = picture.each(scene, theme, ({ line, hatched, area, top, bottom }) => {
		if (area) runs.push(...runsOfArea(area, top, bottom, theme));
		for (let x = 0; !area && x < line.length; ) {
			let end = x + 1;
			while (end < line.length && line[end] === line[x] && hatched[end] === hatched[x]) end++;
			const [value, isHatched] = [line[x]!, hatched[x] === 1];
			const colour = css([value & 255, (value >> 8) & 255, (value >> 16) & 255]);
			if (value !== nothing) runs.push({ x, y: top, width: end - x, height: bottom - top, colour, isHatched });
			x = end;
		}
	});
	return { ...above, runs };
}

/** A lane of numbers: the average; above it, paler, the maximum of a level; above that, hatching where something is unknown. */
function runsOfArea(area: Area, top: number, bottom: number, theme: Theme): Run[] {
	const runs: Run[] = [];
	const { solid, pale } = area.colours(theme);
	const add = (x: number, from: number, until: number, colour: string, isHatched: boolean) => {
		if (until > from) runs.push({ x, y: bottom - until, width: 1, height: until - from, colour, isHatched });
	};
	for (const { x, mean, high, isUnknown } of area.bars(bottom - top)) {
		add(x, 0, mean, css(solid), false);
		add(x, mean, high, css(pale), false);
		if (isUnknown) add(x, high, bottom - top, css(theme.classes.unknown), true);
	}
	return runs;
}

const LEGEND = CLASSES.filter((name): name is Exclude<Class, "other"> => name !== "other");

const escaped = (text: string): string =>
	text
		// What XML cannot have at all.
		.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
		.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]!);

type Attributes = Record<string, string | number>;

const element = (name: string, attributes: Attributes, inside = ""): string => {
	const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(String(value))}"`);
	return inside ? `<${name}${written.join("")}>${inside}</${name}>` : `<${name}${written.join("")}/>`;
};

const text = (x: number, y: number, fill: string, said: string): string =>
	element("text", { x, y, fill, "dominant-baseline": "central" }, escaped(said));

/** Where the name of a row begins. */
const leftOf = (row: Row): number => 12 + indentOf(row);

export function svgOf(picture: Picture, scene: Scene, theme: Theme, { width, height, scale }: Size): string {
	const { runs, texts, scales, lines, icons } = runsOf(picture, scene, theme);
	const [all, high] = [NAMES_WIDTH + width, height + legendHeight(width, scene)];
	const background = css(theme.background);
	const parts: string[] = [];
	const rounded = (value: number) => Math.round((value / scale) * 100) / 100;
	const lanes = runs.map(({ x, y, width, height, colour, isHatched }) => {
		const place = { x: rounded(x), y: rounded(y), width: rounded(width), height: rounded(height) };
		const shape = element("rect", { ...place, fill: colour });
		return isHatched ? shape + element("rect", { ...place, fill: "url(#hatched)" }) : shape;
	});
	const labels = texts.map(({ text: said, x, top, bottom, width, colour }) => {
		const short = shortened(said, width / scale);
		return short ? text(rounded(x) + 4, rounded((top + bottom) / 2), colour, short) : "";
	});
	const tops = scales.map(({ text: said, top }) => text(4, rounded(top) + 6, theme.faint, said));
	const handovers = lines.map(({ x, top, bottom }) =>
		element("rect", {
			x: rounded(x),
			y: rounded(top),
			width: 1,
			height: rounded(bottom - top),
			fill: css(theme.text),
		}),
	);
	const iconAt = (name: IconName, x: number, y: number) =>
		element("path", {
			d: ICONS[name].path,
			transform: `translate(${x} ${y})`,
			fill: css(theme.text),
			"fill-rule": "evenodd",
			stroke: background,
			"stroke-width": 2 * ICON_EDGE,
			"stroke-linejoin": "round",
			"paint-order": "stroke",
		});
	const begins = icons.map(({ name, x, y }) => iconAt(name, rounded(x), rounded(y)));
	const at = (ns: number) => ((ns - scene.span.begin) / (scene.span.end - scene.span.begin)) * width;
	const seen = seenOf(scene, height - AXIS_HEIGHT);
	const marks: string[] = [];
	if (scene.range) {
		const [left, right] = [at(scene.range.begin), at(scene.range.end)].map((x) => Math.min(width, Math.max(0, x)));
		// What is outside fades, as on the canvas.
		for (const [x, until] of [
			[0, left!],
			[right!, width],
		] as const) {
			if (until <= x) continue;
			const place = { x, y: AXIS_HEIGHT, width: until - x, height: height - AXIS_HEIGHT };
			marks.push(element("rect", { ...place, fill: background, "fill-opacity": 0.69 }));
		}
		const place = { x: left!, y: 0, width: Math.max(1, right! - left!), height };
		marks.push(element("rect", { ...place, fill: "none", stroke: theme.faint }));
	}
	for (const mark of scene.marks) {
		marks.push(element("rect", { x: at(mark), y: 0, width: 1, height, fill: css(theme.classes.runnable) }));
	}
	const path = Picture.path(scene, seen, width, 1, theme).map(({ d, width, colour }) =>
		element("path", { d, fill: "none", stroke: colour, "stroke-width": width }),
	);
	const chosen = seen.find(({ row }) => row.lane && row.lane.id === scene.selected?.lane);
	if (chosen && scene.selected?.span) {
		const { begin, end } = scene.selected.span;
		const [left, right] = [Math.max(-4, at(begin)), Math.min(width + 4, at(end))];
		const place = {
			x: left,
			y: AXIS_HEIGHT + chosen.top,
			width: Math.max(2, right - left),
			height: chosen.row.height - 2,
		};
		marks.push(element("rect", { ...place, fill: "none", stroke: theme.selection, "stroke-width": 2 }));
	}
	const arrows = Picture.arrows(scene, seen, width, 1).map(({ line, head, dot }) => {
		const shaft = element("path", { d: line, fill: "none", stroke: theme.selection, "stroke-width": ARROW_WIDTH });
		const start = element("circle", { cx: dot.x, cy: dot.y, r: dot.radius, fill: theme.selection });
		return shaft + element("path", { d: head, fill: theme.selection }) + start;
	});
	for (const note of scene.notes) {
		const [left, right] = [at(note.begin), Math.min(width, at(note.end))];
		if (right < 0 || left > width) continue;
		const title = element("title", {}, escaped(note.text));
		const flag = element("path", { d: `M${left} 0l9 3.5l-9 3.5z`, fill: theme.note }, title);
		const line = { x: Math.max(0, left), y: AXIS_HEIGHT - 3, width: Math.max(1, right - Math.max(0, left)), height: 2 };
		marks.push(element("rect", { ...line, fill: theme.note }), left >= 0 ? flag : "");
	}
	const axis = ticks(scene.span, width, 120).map(
		({ x, text: said }) =>
			element("rect", { x, y: 0, width: 1, height: AXIS_HEIGHT, fill: theme.line }) +
			text(x + 5, AXIS_HEIGHT / 2, theme.faint, said),
	);
	const names = seen.map(({ row, top }) => {
		const said = shortened(`${row.title} ${row.note}`.trim(), NAMES_WIDTH - leftOf(row));
		return text(leftOf(row), AXIS_HEIGHT + top + row.height / 2, css(theme.text), said);
	});
	const legend = legendPlaces(width, scene).map(({ name, x, y }) => {
		if (isIcon(name))
			return iconAt(name, x + 1, y - ICON_SIZE / 2) + text(x + 18, y, css(theme.text), legendName(name));
		const place = { x, y: y - 6, width: 12, height: 12 };
		const shape = element("rect", { ...place, fill: css(theme.classes[name]) });
		const hatch = name === "unknown" ? element("rect", { ...place, fill: "url(#hatched)" }) : "";
		return shape + hatch + text(x + 18, y, css(theme.text), legendName(name));
	});
	const line = element("path", { d: "M-2 10L10 -2", stroke: background, "stroke-width": 3 });
	const pattern = element("pattern", { id: "hatched", width: 8, height: 8, patternUnits: "userSpaceOnUse" }, line);
	const clip = element(
		"clipPath",
		{ id: "lanes" },
		element("rect", { width, height: height - AXIS_HEIGHT, y: AXIS_HEIGHT }),
	);
	const namesClip = element(
		"clipPath",
		{ id: "names" },
		element("rect", { width: NAMES_WIDTH, height: height - AXIS_HEIGHT, y: AXIS_HEIGHT }),
	);
	parts.push(
		element("defs", {}, pattern + clip + namesClip),
		element("rect", { width: all, height: high, fill: background }),
		element("g", { id: "lane-names", "clip-path": "url(#names)" }, names.join("\n")),
		element(
			"g",
			{ transform: `translate(${NAMES_WIDTH} 0)` },
			[
				element(
					"g",
					{ id: "lanes-drawn", "clip-path": "url(#lanes)" },
					[...lanes, ...labels, ...tops, ...handovers].join("\n"),
				),
				element("g", { id: "icons", "clip-path": "url(#lanes)" }, begins.join("\n")),
				element("g", { id: "path", "clip-path": "url(#lanes)" }, path.join("\n")),
				element("g", { id: "axis" }, axis.join("\n")),
				element("g", { id: "marks" }, marks.join("\n") || " "),
				element("g", { id: "arrows", "clip-path": "url(#lanes)" }, arrows.join("\n")),
			].join("\n"),
		),
		element("g", { id: "legend", transform: `translate(${NAMES_WIDTH} ${height})` }, legend.join("\n")),
	);
	const root = { xmlns: "http://www.w3.org/2000/svg", width: all, height: high, viewBox: `0 0 ${all} ${high}` };
	return `${element("svg", { ...root, "font-family": FONT, "font-size": 11 }, `\n${parts.join("\n")}\n`)}\n`;
}

/** Where the colours and icons are explained, below the lanes: in as many lines as they need. */
function legendPlaces(width: number, { isFlow }: Scene): { name: Class | IconName; x: number; y: number }[] {
	const inLine = Math.max(1, Math.floor(width / LEGEND_STEP));
	return [...LEGEND, ...(isFlow ? ICON_NAMES : [])].map((name, index) => ({
		name,
		x: 8 + (index % inLine) * LEGEND_STEP,
		y: LEGEND_HEIGHT / 2 + Math.floor(index / inLine) * 20,
	}));
}

const isIcon = (name: Class | IconName): name is IconName => name in ICONS;

const legendName = (name: Class | IconName): string =>
	isIcon(name) ? ICONS[name].what : `${CLASS_NAMES[name]}${name === "unknown" ? " (hatched)" : ""}`;

const legendHeight = (width: number, scene: Scene): number => legendPlaces(width, scene).at(-1)!.y + LEGEND_HEIGHT / 2;

export function pngOf(picture: Picture, scene: Scene, theme: Theme, size: Size): Promise<Blob> {
	const { scale } = size;
	const { width, height } = picture.canvas;
	const legend = Math.round(legendHeight(size.width, scene) * scale);
	const canvas = new OffscreenCanvas(Math.round(NAMES_WIDTH * scale) + width, height + legend);
	const context = canvas.getContext("2d", { alpha: false })!;
	context.fillStyle = css(theme.background);
	context.fillRect(0, 0, canvas.width, canvas.height);
	context.font = `${11 * scale}px ${FONT}`;
	context.textBaseline = "middle";
	const write = (said: string, x: number, y: number) => {
		context.fillStyle = css(theme.text);
		context.fillText(said, x * scale, y * scale);
	};
	for (const { row, top } of seenOf(scene, height / scale - AXIS_HEIGHT)) {
		const left = leftOf(row);
		write(shortened(`${row.title} ${row.note}`.trim(), NAMES_WIDTH - left), left, AXIS_HEIGHT + top + row.height / 2);
	}
	// A lane of which a part is seen does not reach into the axis, nor into what the colours mean.
	context.fillStyle = css(theme.background);
	context.fillRect(0, 0, canvas.width, AXIS_HEIGHT * scale);
	context.fillRect(0, height, canvas.width, canvas.height - height);
	context.drawImage(picture.canvas, Math.round(NAMES_WIDTH * scale), 0);
	for (const { name, x, y } of legendPlaces(size.width, scene)) {
		const [left, middle] = [NAMES_WIDTH + x, height / scale + y];
		if (isIcon(name)) {
			drawIcon(context, { name, x: (left + 1) * scale, y: (middle - ICON_SIZE / 2) * scale }, theme, scale);
		} else {
			context.fillStyle = css(theme.classes[name]);
			context.fillRect(left * scale, (middle - 6) * scale, 12 * scale, 12 * scale);
		}
		write(legendName(name), left + 18, middle);
	}
	return canvas.convertToBlob({ type: "image/png" });
}
