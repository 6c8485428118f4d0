// SPDX-License-Identifier: MIT OR Apache-2.0
// Tables: numbers are right-aligned and have units; a click on a column's head sorts by it.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { duration } from "./time";

/** So many characters of a text are shown: browsers need seconds to lay out a page of longer ones. */
const SHOWN_MAX = 400;

/** A text as a cell shows it. */
export const shownText = (text: string): string =>
	text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}… (${text.length.toLocaleString("en-US")} characters)`;

/** A value by which rows are sorted. */
export type Key = string | number | bigint | null;

export interface Column<Row> {
	heading: string;
	isNumber: boolean;
	key: (row: Row) => Key;
	cell: (row: Row) => ComponentChildren;
	/** Tooltip of a cell, for texts that do not fit. */
	title?: (row: Row) => string;
}

/** Numbers before texts; absent values last, in either direction. */
export function compare(one: Key, other: Key, isDescending: boolean): number {
	if (one === null || other === null) return Number(one === null) - Number(other === null);
	const order =
		typeof one === "string" || typeof other === "string"
			? Number(typeof one === "string") - Number(typeof other === "string") ||
				String(one).localeCompare(String(other), "en", { numeric: true })
			: one < other
				? -1
				: Number(one > other);
	return isDescending ? -order : order;
}

interface DataTableProps<Row> {
	columns: Column<Row>[];
	rows: Row[];
	caption?: ComponentChildren;
	/** At most this many rows are shown. */
	most: number;
}

export function DataTable<Row>({ columns, rows, caption, most }: DataTableProps<Row>) {
	const [sort, setSort] = useState<{ column: number; isDescending: boolean } | null>(null);
	const by = sort ? columns[sort.column] : undefined;
	const sorted = useMemo(() => {
		if (!sort || !by) return rows;
		const keyed = rows.map((row) => ({ row, key: by.key(row) }));
		return keyed.sort((one, other) => compare(one.key, other.key, sort.isDescending)).map(({ row }) => row);
	}, [rows, by, sort]);
	// Numbers: the largest first. The third click restores the order of the answer.
	const turn = (column: number) => {
		const first = columns[column]!.isNumber;
		if (sort?.column !== column) setSort({ column, isDescending: first });
		else setSort(sort.isDescending === first ? { column, isDescending: !first } : null);
	};
	return (
		<table>
			{caption && <caption>{caption}</caption>}
			<thead>
				<tr>
					{columns.map(({ heading, isNumber }, index) => {
						const isBy = by !== undefined && sort?.column === index;
						const direction = isBy ? (sort.isDescending ? "descending" : "ascending") : "none";
						return (
							<th key={index} scope="col" class={isNumber ? "number" : ""} aria-sort={direction}>
								<button type="button" class="head" title={`Sort by ${heading}`} onClick={() => turn(index)}>
									{heading}
									<span aria-hidden="true">{isBy ? (sort.isDescending ? " ▾" : " ▴") : ""}</span>
								</button>
							</th>
						);
					})}
				</tr>
			</thead>
			<tbody>
				{sorted.slice(0, most).map((row, index) => (
					<tr key={index}>
						{columns.map((column, place) => (
							<td key={place} class={column.isNumber ? "number" : ""} title={column.title?.(row)}>
								{column.cell(row)}
							</td>
						))}
					</tr>
				))}
			</tbody>
		</table>
	);
}

/** A name without its unit, which the cells show. */
export const heading = (name: string): string =>
	name
		.replace(/_(ns|bytes)(\)*)$/, "$2")
		.replace(/_percent$/, " %")
		.replaceAll("_", " ");

/** Columns of identifiers, which have no thousands separators. */
const NAMING = /(^|_|\.)(tid|pid|ppid|uid|cpu|thread|stream|fd|number|id|ret|error|sector|priority|prio|depth)$/;

export const isIdentifier = (name: string): boolean => NAMING.test(name);

export const isNumeric = (text: string): boolean => /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);

/** What the numbers of a column are of: its name says it, also inside a function of SQL. */
export function unitOf(name: string): "ns" | "bytes" | "percent" | null {
	if (/_ns\)*$/.test(name)) return "ns";
	if (/(^|[_.(])bytes\)*$/.test(name)) return "bytes";
	return /_percent\)*$/.test(name) ? "percent" : null;
}

/** A number with the unit that its name ends with. */
export function measured(name: string, value: number): string {
	switch (unitOf(name)) {
		case "ns":
			return duration(value);
		case "bytes":
			return bytes(value);
		case "percent":
			return value.toFixed(1);
		default:
			return isIdentifier(name) ? String(value) : value.toLocaleString("en-US", { maximumFractionDigits: 6 });
	}
}

/** What a table of an analysis has in a cell. */
export function said(name: string, value: unknown): string {
	if (value === null || value === undefined) return "";
	if (typeof value === "number") return measured(name, value);
	if (Array.isArray(value) && value.every(isDuration)) {
		return value.map(({ name, ns }) => `${name} ${duration(ns)}`).join(", ");
	}
	return shownText(typeof value === "object" ? JSON.stringify(value) : String(value));
}

/** One of several with its time, such as those behind whom a thread waited. */
const isDuration = (one: { name?: unknown; ns?: unknown } | null): one is { name: string; ns: number } =>
	typeof one?.name === "string" && typeof one.ns === "number";

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** The largest unit that a number of bytes has at least one of, and how many bytes it is. */
export function byteUnit(value: number): readonly [unit: string, size: number] {
	let power = 0;
	while (Math.abs(value) >= 1024 ** (power + 1) && power < BYTE_UNITS.length - 1) power++;
	return [BYTE_UNITS[power]!, 1024 ** power];
}

function bytes(value: number): string {
	const [unit, size] = byteUnit(value);
	const count = value / size;
	return `${size === 1 ? value : count.toFixed(Math.abs(count) < 10 ? 2 : 1)} ${unit}`;
}

export interface Table {
	title: string;
	rows: Record<string, unknown>[];
}

/** The lists of rows in an answer. */
function tablesOf(answer: unknown): Table[] {
	const isRow = (row: unknown) => typeof row === "object" && row !== null && !Array.isArray(row);
	const lists = Object.entries(answer as object).filter(([name]) => name !== "findings");
	return lists.flatMap(([name, rows]) =>
		Array.isArray(rows) && rows.length > 0 && rows.every(isRow) ? [{ title: titled(name), rows }] : [],
	);
}

/** What an analysis says. */
export interface Analysis {
	tables: Table[];
	notes: string[];
}

export const analysisOf = (answer: unknown): Analysis => ({
	tables: tablesOf(answer),
	notes: (answer as { notes?: string[] }).notes ?? [],
});

/** `cpus` is `CPUs`, and `by_file` is `By file`. */
function titled(name: string): string {
	const words = name.replaceAll("_", " ").replace(/\bcpu(s?)\b/g, "CPU$1");
	return words.charAt(0).toUpperCase() + words.slice(1);
}

interface TableProps {
	table: Table;
	most: number;
	/** Opens the thread of a row. */
	openThread?: ((tid: number) => (() => void) | null) | undefined;
}

/** A table of an analysis. Ask for one row more than `most`, so that it can say whether there are more. */
export function TableView({ table, most, openThread }: TableProps) {
	const columns = useMemo(() => {
		const names = Object.keys(table.rows[0] ?? {});
		return names.map((name): Column<Table["rows"][number]> => {
			const isNumber = table.rows.every((row) => row[name] == null || typeof row[name] === "number");
			const text = (row: Table["rows"][number]) => said(name, row[name]);
			const cell = (row: Table["rows"][number]) => {
				const open = name === "tid" && typeof row.tid === "number" ? openThread?.(row.tid) : null;
				if (row[name] === 0 && !isIdentifier(name)) return <span class="faint">0</span>;
				if (!open) return text(row);
				return (
					<button type="button" class="link" title="Show the thread in the timeline" onClick={open}>
						{text(row)}
					</button>
				);
			};
			const key = (row: Table["rows"][number]): Key => {
				const value = row[name];
				return typeof value === "number" ? value : text(row) || null;
			};
			const column = { heading: heading(name), isNumber, key, cell };
			return isNumber ? column : { ...column, title: text };
		});
	}, [table, openThread]);
	if (columns.length === 0) return null;
	const isCut = table.rows.length > most;
	const caption = (
		<>
			{table.title}
			{isCut && <small>, the first {most.toLocaleString("en-US")} rows; there are more</small>}
		</>
	);
	return <DataTable columns={columns} rows={table.rows.slice(0, most)} caption={caption} most={most} />;
}

interface AnalysisProps extends Omit<TableProps, "table"> {
	analysis: Analysis;
	/** What it is of. */
	of: "range" | "trace";
}

export function AnalysisView({ analysis: { tables, notes }, of, ...others }: AnalysisProps) {
	return (
		<>
			{tables.length === 0 && <p>The tables are empty for this {of}.</p>}
			{tables.map((table) => (
				<TableView key={table.title} table={table} {...others} />
			))}
			{notes.map((note) => (
				<p key={note} class="faint">
					{note}
				</p>
			))}
		</>
	);
}
