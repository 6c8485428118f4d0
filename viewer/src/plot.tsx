// SPDX-License-Identifier: MIT OR Apache-2.0
// The result of a query as a plot: lines over times or numbers, bars over texts. What is drawn is decided in plotted.ts.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Rows } from "./api";
import { css, SERIES, type Theme } from "./colours";
import type { PageProps } from "./places";
import {
	type Chosen,
	chosenOf,
	colourPlaces,
	type Field,
	fieldsOf,
	type Points,
	pointsOf,
	ROW_NUMBER,
	SERIES_MAX,
	stepsOf,
	tickTexts,
	valueText,
} from "./plotted";
import { unitOf } from "./tables";
import { moment } from "./time";

/** CSS pixels. */
const FONT = "11px system-ui, sans-serif";
const CHARACTER_WIDTH = 6.2;
const LINE_HEIGHT = 14;
const AXIS_HEIGHT = 26;
const BAR_WIDTH_MAX = 90;
/** Of a text at the axis. */
const TEXT_MAX = 18;
const LABEL_MAX = 60;
/** A pointer that is so close to a point means it. */
const REACH = 10;
/** Of the room of a text at the axis, so much is for the bars above it. */
const BARS_SHARE = 0.75;
/** By Page Up and Page Down, so much of the points that are seen. */
const PAGE = 0.1;

interface Props extends PageProps {
	answer: Rows;
	theme: Theme;
	/** Opens the timeline at the time in a cell. */
	opener: (row: string[], column: number) => (() => void) | null;
}

export function Plot({ answer, origin, whole, shown, show, theme, opener }: Props) {
	const { rows } = answer;
	const found = useMemo(() => fieldsOf(answer, origin, whole), [answer, origin, whole]);
	// While the recording grows, what is drawn stays the same.
	const fields = useMemo(() => found, [answer, found.map(({ kind }) => kind).join()]);
	const chosen = useMemo(
		() => chosenOf(fields, rows, shown.plotX, shown.plotted),
		[fields, rows, shown.plotX, shown.plotted],
	);
	const points = useMemo(() => pointsOf(rows, chosen, origin), [rows, chosen, origin]);
	const [at, setAt] = useState<number | null>(null);
	const { x, series, numbers } = chosen;
	const colours = useMemo(() => colourPlaces(chosen).map((place) => css(SERIES[place]!)), [chosen]);
	if (rows.length === 0) return <p class="faint">The result has no rows.</p>;
	if (fields.every(({ kind }) => kind !== "number")) {
		return <p class="faint">The result has no column of numbers, so there is nothing to plot.</p>;
	}
	const place = at === null ? "" : placeText(x, points, at);
	const open = (point: number) => x?.kind === "time" && opener(rows[points.rows[point]!]!, x.index)?.();
	const turn = (field: Field) => {
		const others = series.filter((one) => one !== field);
		const all = others.length < series.length ? others : [...series, field];
		show({ plotted: numbers.filter((one) => all.includes(one)).map(({ name }) => name) });
	};
	return (
		<div class="plot">
			<div class="plot-legend">
				<label>
					x axis
					<select
						value={x?.name ?? ROW_NUMBER}
						onChange={({ currentTarget }) => show({ plotX: currentTarget.value, plotted: [] })}
					>
						{fields.map(({ name, index, kind }) => (
							<option key={index} disabled={kind === "empty"}>
								{name}
							</option>
						))}
						<option value={ROW_NUMBER}>row number</option>
					</select>
					<output>{place}</output>
				</label>
				{numbers.map((field) => {
					const drawn = series.indexOf(field);
					const isOnly = drawn >= 0 && series.length === 1;
					const value = drawn < 0 || at === null ? null : points.values[drawn]![at];
					return (
						<label key={field.index}>
							<input
								type="checkbox"
								checked={drawn >= 0}
								disabled={isOnly || (drawn < 0 && series.length === SERIES_MAX)}
								onChange={() => turn(field)}
							/>
							<svg width="12" height="12" aria-hidden="true">
								<rect
									x="1"
									y="1"
									width="10"
									height="10"
									rx="2"
									fill={colours[drawn] ?? "none"}
									stroke={colours[drawn] ?? theme.faint}
								/>
							</svg>
							{field.name}
							<output>{value == null ? "" : valueText(field.name, value)}</output>
						</label>
					);
				})}
			</div>
			{series.length === 0 ? (
				<p class="faint">The only column of numbers is on the x axis. Choose another column for the x axis.</p>
			) : (
				<Area {...{ chosen, points, colours, theme, at, setAt }} open={x?.kind === "time" ? open : null} />
			)}
			{points.leftOut > 0 && (
				<p class="faint">
					{points.leftOut === 1
						? "One row is not drawn because it has"
						: `${points.leftOut} rows are not drawn because they have`}{" "}
					no value in column {x?.name}.
				</p>
			)}
		</div>
	);
}

/** Where a point is on the x axis. */
function placeText(x: Field | null, { x: places, texts }: Points, at: number): string {
	const place = places[at];
	if (place === undefined) return "";
	if (texts) return texts[at]!;
	if (x?.kind === "time") return moment(place, 1);
	return x ? valueText(x.name, place) : String(place);
}

interface AreaProps {
	chosen: Chosen;
	points: Points;
	colours: string[];
	theme: Theme;
	/** The point at the cursor. */
	at: number | null;
	setAt: (point: number | null) => void;
	open: ((point: number) => void) | null;
}

function Area({ chosen, points, colours, theme, at, setAt, open }: AreaProps) {
	const place = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	/** The point that a key chose: of several at the same place, the pointer finds only one. */
	const keyed = useRef<number | null>(null);
	const [isZoomed, setZoomed] = useState(false);
	const opens = useRef(open);
	opens.current = open;
	useLayoutEffect(() => {
		const element = place.current!;
		keyed.current = null;
		setAt(null);
		const made = new uPlot(
			{
				...optionsOf(chosen, points, colours, theme),
				width: element.clientWidth,
				height: element.clientHeight,
				cursor: {
					y: false,
					// A click after a very short drag is one, too; what it means is decided below.
					drag: { dist: REACH / 2, click: () => {} },
					points: {
						...(points.texts && { show: false }),
						size: 8,
						width: 2,
						stroke: (_, index) => colours[index - 1]!,
						fill: css(theme.background),
					},
					dataIdx: (_, _index, closest) => keyed.current ?? closest,
				},
				hooks: {
					setCursor: [(own) => setAt(keyed.current ?? own.cursor.idx ?? null)],
					setScale: [(own, key) => key === "x" && setZoomed(isZoomedIn(own))],
				},
			},
			[points.x, ...points.values],
			element,
		);
		plot.current = made;
		const { over } = made;
		let down = { x: 0, y: 0 };
		over.addEventListener("pointerdown", ({ clientX, clientY }) => {
			down = { x: clientX, y: clientY };
		});
		over.addEventListener("pointermove", ({ offsetX, offsetY }) => {
			keyed.current = null;
			over.style.cursor = opens.current && pointAt(made, offsetX, offsetY) !== null ? "pointer" : "";
		});
		over.addEventListener("click", ({ clientX, clientY, offsetX, offsetY }) => {
			const isDrag = Math.abs(clientX - down.x) + Math.abs(clientY - down.y) > REACH / 2;
			const point = isDrag ? null : pointAt(made, offsetX, offsetY);
			if (point !== null) opens.current?.(point);
		});
		const observer = new ResizeObserver(() =>
			made.setSize({ width: element.clientWidth, height: element.clientHeight }),
		);
		observer.observe(element);
		return () => {
			observer.disconnect();
			made.destroy();
			plot.current = null;
		};
	}, [chosen, points, colours, theme, setAt]);

	const press = (event: KeyboardEvent) => {
		const own = plot.current;
		if (!own || event.ctrlKey || event.altKey || event.metaKey) return;
		const [first, last] = own.series[0]!.idxs!;
		const now = keyed.current ?? at;
		const page = Math.max(1, Math.round((last - first) * PAGE));
		const to = {
			ArrowLeft: now === null ? last : now - 1,
			ArrowRight: now === null ? first : now + 1,
			PageUp: (now ?? first) - page,
			PageDown: (now ?? first) + page,
			Home: first,
			End: last,
		}[event.key];
		if (to !== undefined) {
			keyed.current = Math.min(last, Math.max(first, to));
			const drawn = points.values.findIndex((values) => values[keyed.current!] != null);
			const value = points.values[drawn]?.[keyed.current] ?? 0;
			const top = own.valToPos(value, own.series[Math.max(0, drawn) + 1]!.scale!);
			own.setCursor({ left: own.valToPos(points.x[keyed.current]!, "x"), top });
		} else if (event.key === "Enter" && now !== null && open) open(now);
		else if (event.key === "+" || event.key === "-") zoom(own, event.key === "+" ? 0.5 : 2, now);
		else if (event.key === "Escape" && isZoomed) reset(own);
		else return;
		event.preventDefault();
		event.stopPropagation();
	};
	const { x, series } = chosen;
	const said = (point: number) =>
		[
			placeText(x, points, point),
			...series.map(({ name }, index) => {
				const value = points.values[index]![point];
				return `${name} ${value == null ? "empty" : valueText(name, value)}`;
			}),
		].join(", ");
	const names = series.map(({ name }) => name).join(", ");
	const count = `${points.x.length} ${points.x.length === 1 ? "point" : "points"}`;
	return (
		<div class="plot-area">
			<div
				ref={place}
				role="slider"
				tabIndex={0}
				aria-label={`Plot of ${names} over ${x?.name ?? "the row number"}, ${count}. Arrow keys move the cursor${open ? ", Enter opens the timeline" : ""}.`}
				aria-valuemin={1}
				aria-valuemax={points.x.length}
				aria-valuenow={(at ?? 0) + 1}
				aria-valuetext={at === null || at >= points.x.length ? "no point" : said(at)}
				onKeyDown={press}
			/>
			<p class="faint">
				{isZoomed ? (
					<button type="button" class="link" onClick={() => plot.current && reset(plot.current)}>
						Show all
					</button>
				) : (
					`Drag to enlarge a part${open ? "; click a point to open the timeline there" : ""}.`
				)}
			</p>
		</div>
	);
}

/** The point close to a place, in CSS pixels. */
function pointAt(own: uPlot, left: number, top: number): number | null {
	const [xs, ...values] = own.data;
	const [first, last] = own.series[0]!.idxs!;
	let found: { point: number; distance: number } | null = null;
	for (let point = first; point <= last; point++) {
		const across = Math.abs(own.valToPos(xs[point]!, "x") - left);
		if (across > REACH) continue;
		values.forEach((some, index) => {
			const value = some[point];
			if (value == null) return;
			const distance = Math.hypot(across, own.valToPos(value, own.series[index + 1]!.scale!) - top);
			if (distance <= REACH && distance < (found?.distance ?? Number.POSITIVE_INFINITY)) found = { point, distance };
		});
	}
	return (found as { point: number } | null)?.point ?? null;
}

/** The places of the first and the last point. */
function endsOf(own: uPlot): [number, number] {
	const xs = own.data[0];
	return [xs[0] ?? 0, xs[xs.length - 1] ?? 0];
}

function isZoomedIn(own: uPlot): boolean {
	const [first, last] = endsOf(own);
	const { min, max } = own.scales.x!;
	return min !== undefined && max !== undefined && (min > first || max < last);
}

function reset(own: uPlot): void {
	const [min, max] = endsOf(own);
	own.setScale("x", { min, max });
}

/** Around a point, or the middle. */
function zoom(own: uPlot, factor: number, point: number | null): void {
	const { min, max } = own.scales.x as { min: number; max: number };
	const around = point === null ? (min + max) / 2 : own.data[0][point]!;
	own.setScale("x", { min: around - (around - min) * factor, max: around + (max - around) * factor });
}

const shortened = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function optionsOf(
	chosen: Chosen,
	points: Points,
	colours: string[],
	theme: Theme,
): Omit<uPlot.Options, "width" | "height"> {
	const { x, series } = chosen;
	const isBars = points.texts !== null;
	/** Columns with the same unit have the same scale, and an axis. */
	const scaleOf = ({ name }: Field) => unitOf(name) ?? "number";
	const scales = [...new Set(series.map(scaleOf))];
	const line = { stroke: theme.line, width: 1 };
	const axis = {
		stroke: theme.faint,
		font: FONT,
		labelFont: FONT,
		labelSize: 20,
		grid: line,
		ticks: { ...line, size: 5 },
	};
	return {
		legend: { show: false },
		padding: [12, scales.length > 1 ? 0 : 24, 0, 0],
		scales: {
			x: { time: false, range: (_, min, max) => rangeOf(points, min, max) },
			...Object.fromEntries(
				scales.flatMap((key) =>
					key === "percent" ? [[key, { range: ofHundred }]] : isBars ? [[key, { range: fromZero }]] : [],
				),
			),
		},
		series: [
			{},
			...series.map(
				(field, index): uPlot.Series => ({
					label: field.name,
					scale: scaleOf(field),
					stroke: colours[index]!,
					width: isBars ? 0 : 1.5,
					...(isBars
						? { fill: colours[index]!, paths: barsOf(points, index, series.length), points: { show: false } }
						: { points: { size: 6, fill: colours[index]!, filter: alone } }),
				}),
			),
		],
		axes: [
			{
				...axis,
				label: x ? shortened(x.name, LABEL_MAX) : "row number",
				...(points.texts ? textAxis(points.texts) : numberAxis(x, points)),
			},
			...scales.map((key, index): uPlot.Axis => {
				const own = series.filter((field) => scaleOf(field) === key);
				const { name } = own[0]!;
				return {
					...axis,
					scale: key,
					space: 52,
					side: index === 0 ? 3 : 1,
					labelSize: 24,
					labelGap: 4,
					label: shortened(own.map(({ name }) => name).join(", "), LABEL_MAX),
					incrs: stepsOf(
						name,
						own.flatMap((field) => points.values[series.indexOf(field)]!),
					),
					values: (_, ticks) => tickTexts(name, ticks),
					size: (_, values) => 14 + CHARACTER_WIDTH * Math.max(0, ...(values ?? []).map((text) => text.length)),
					// Those of several axes would be at different heights.
					grid: { ...line, show: index === 0 },
				};
			}),
		],
	};
}

/** All of the x axis, with room for the first and last point, or the part that was chosen. */
function rangeOf({ x, texts }: Points, min: number, max: number): [number, number] {
	const [first, last] = [x[0] ?? 0, x.at(-1) ?? 0];
	const room = texts ? 0.5 : (last - first) * 0.02 || Math.max(1, Math.abs(first) * 0.001);
	const isPart = min > first || max < last;
	return [isPart ? Math.max(min, first - room) : first - room, isPart ? Math.min(max, last + room) : last + room];
}

const fromZero = (_: uPlot, min: number | null, max: number | null): [number, number] => [
	Math.min(0, (min ?? 0) * 1.05),
	Math.max(0, (max ?? 0) * 1.05) || 1,
];

const ofHundred = (own: uPlot, min: number | null, max: number | null): [number, number] => {
	const [low, high] = fromZero(own, min, max);
	return [low, max !== null && max > 100 ? high : 100];
};

/** The bars of a series, beside those of the others. */
function barsOf({ x }: Points, index: number, count: number): uPlot.Series.PathBuilder {
	const widthOf = (own: uPlot) => {
		const { min, max } = own.scales.x as { min: number; max: number };
		const most = (BAR_WIDTH_MAX * uPlot.pxRatio * (max - min)) / own.bbox.width;
		return Math.min(BARS_SHARE / count, most);
	};
	const begins = (own: uPlot) => {
		const width = widthOf(own);
		return x.map((at) => at + (index - count / 2) * width);
	};
	// The values of an enumeration that has no code: 1 is a value of the scale.
	return uPlot.paths.bars!({
		disp: { x0: { unit: 1, values: begins }, size: { unit: 1, values: (own) => [widthOf(own)] } },
	});
}

/** A point between two gaps has no line, so it is always drawn. */
function alone(own: uPlot, index: number, isShown: boolean): number[] | null {
	if (isShown) return null;
	const values = own.data[index]!;
	const [first, last] = own.series[0]!.idxs!;
	const found: number[] = [];
	for (let point = first; point <= last; point++) {
		if (values[point] != null && values[point - 1] == null && values[point + 1] == null) found.push(point);
	}
	return found;
}

function numberAxis(x: Field | null, points: Points): Partial<uPlot.Axis> {
	if (x?.kind === "time") {
		return {
			size: AXIS_HEIGHT,
			incrs: stepsOf(x.name, points.x),
			space: 120,
			values: (_, ticks, _index, _space, step) => ticks.map((tick) => moment(tick, step)),
		};
	}
	const name = x?.name ?? "number";
	return { size: AXIS_HEIGHT, incrs: stepsOf(name, points.x), space: 80, values: (_, ticks) => tickTexts(name, ticks) };
}

/** Texts lie beside each other, or aslant if there is no room for that; those for which there is none, either, are left out. */
function textAxis(texts: string[]): Partial<uPlot.Axis> {
	const shown = texts.map((text) => shortened(text, TEXT_MAX));
	const longest = CHARACTER_WIDTH * Math.max(...shown.map((text) => text.length)) + 12;
	const roomOf = (own: uPlot) => {
		const { min, max } = own.scales.x as { min: number; max: number };
		return (own.bbox.width || own.width * uPlot.pxRatio) / uPlot.pxRatio / (max - min);
	};
	const isAslant = (own: uPlot) => roomOf(own) < longest;
	return {
		splits: (own, _index, min, max) => {
			const step = isAslant(own) ? Math.ceil(LINE_HEIGHT / roomOf(own)) : 1;
			const first = Math.max(0, Math.ceil(min / step) * step);
			const last = Math.min(texts.length - 1, max);
			return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, at) => first + at * step);
		},
		values: (_, places) => places.map((place) => shown[place] ?? ""),
		rotate: (own) => (isAslant(own) ? 45 : 0),
		size: (own) => (isAslant(own) ? 20 + longest * Math.SQRT1_2 : AXIS_HEIGHT),
		grid: { show: false },
	};
}
