// SPDX-License-Identifier: MIT OR Apache-2.0
// Beside the editor of queries: the tables with their columns, and the queries that were run.
import { SQLDialect, sql } from "@codemirror/lang-sql";
import type { Extension } from "@codemirror/state";
import { useState } from "preact/hooks";
import { type Answered, useAnswer } from "./answers";
import * as api from "./api";
import { COMPUTED, quoted } from "./queries";

interface Props {
	/** Absent: they are not known yet. */
	tables: TableColumns[] | undefined;
	/** Why they are not known. */
	problem: string | undefined;
	history: string[];
	insert: (text: string) => void;
	start: (sql: string) => void;
	clear: () => void;
}

export interface TableColumns {
	name: string;
	columns: { name: string; type: string }[];
}

const COLUMNS = `SELECT table_name, column_name, data_type FROM information_schema.columns
	WHERE table_schema = 'trace' ORDER BY table_name, ordinal_position`;
/** Of all tables together. */
const COLUMNS_MAX = 100_000;

/** The tables that queries of a recording can name. */
export const useTables = (recording: number): Answered<TableColumns[]> =>
	useAnswer([recording], async (signal) => {
		const { rows } = await api.query(recording, COLUMNS, COLUMNS_MAX, signal);
		return grouped(rows);
	});

/** What queries that read are made of. Other words of SQL are names here, such as `name`. */
const DIALECT = SQLDialect.define({
	keywords: `all and any array as asc between by case cast cross current date day desc distinct else end escape except exclude exists explain
		extract false filter first following for from full group grouping groups having hour ilike in inner intersect interval into is
		join lag last lateral left like limit lower minute month natural not null nulls offset on or order outer over partition
		preceding range recursive respect right row rows second select similar some table then time to true unbounded union unnest using
		values when where window with within year analyze describe show`,
	types: "bigint binary boolean date double float int integer interval smallint text timestamp varchar",
	builtin: `abs approx_distinct approx_percentile_cont array_agg avg ceil coalesce concat corr count date_bin date_trunc dense_rank
		first_value floor from_unixtime greatest lag last_value lead least length ln log10 lower max median min nth_value ntile nullif
		percent_rank power rank regexp_like regexp_replace replace round row_number split_part sqrt starts_with stddev string_agg strpos
		substr sum to_timestamp_nanos trim upper var`,
	operatorChars: "+-*/<>=~!|",
	spaceAfterDashes: false,
});

/** For an editor: SQL as piste-query understands it, with its tables and columns. */
export function sqlLanguage(tables: TableColumns[] | undefined): Extension {
	const schema = Object.fromEntries((tables ?? []).map(({ name, columns }) => [name, columns.map(({ name }) => name)]));
	return sql({ dialect: DIALECT, schema, upperCaseKeywords: true });
}

/** The tables and their columns, or the queries that were run. */
export function Side({ tables, problem, history, insert, start, clear }: Props) {
	const [tab, setTab] = useState<"tables" | "history">("tables");
	const [filter, setFilter] = useState("");
	const word = filter.toLowerCase();
	const found = tables?.filter(
		({ name, columns }) =>
			name.toLowerCase().includes(word) || (word && columns.some(({ name }) => name.toLowerCase().includes(word))),
	);
	const list = (heading: string, some: TableColumns[] | undefined) =>
		some &&
		some.length > 0 && (
			<>
				<h3 class="group">{heading}</h3>
				{some.map((table) => (
					<details key={table.name}>
						<summary>{table.name}</summary>
						<p class="actions">
							<button
								type="button"
								class="link"
								onClick={() => start(`SELECT *\nFROM ${quoted(table.name)}\nLIMIT 100`)}
							>
								Show rows
							</button>
							<button type="button" class="link" onClick={() => insert(quoted(table.name))}>
								Insert name
							</button>
						</p>
						<ul class="columns">
							{table.columns.map(({ name, type }) => (
								<li key={name}>
									<button type="button" class="insert" title={`Insert ${name}`} onClick={() => insert(quoted(name))}>
										{name}
									</button>{" "}
									<small>{type}</small>
								</li>
							))}
						</ul>
					</details>
				))}
			</>
		);
	return (
		<aside class="side">
			<div role="tablist" class="tabs side-tabs">
				<button type="button" role="tab" aria-selected={tab === "tables"} onClick={() => setTab("tables")}>
					Tables
				</button>
				<button type="button" role="tab" aria-selected={tab === "history"} onClick={() => setTab("history")}>
					History
				</button>
			</div>
			{tab === "tables" ? (
				<>
					<input
						type="search"
						placeholder="Filter tables and columns"
						aria-label="Filter tables and columns"
						value={filter}
						onInput={(event) => setFilter(event.currentTarget.value)}
					/>
					{problem && <p role="alert">{problem}</p>}
					{!tables && !problem && <p class="faint">Reading the tables…</p>}
					{found?.length === 0 && <p class="faint">No matching tables or columns.</p>}
					{list(
						"Computed from the events",
						found?.filter(({ name }) => COMPUTED.includes(name)),
					)}
					{list(
						"Events by name",
						found?.filter(({ name }) => !COMPUTED.includes(name)),
					)}
				</>
			) : history.length === 0 ? (
				<p class="faint">Queries that you run are listed here. They stay in this browser.</p>
			) : (
				<>
					<ol class="history">
						{history.map((sql) => (
							<li key={sql}>
								<button type="button" class="again" title="Run again" onClick={() => start(sql)}>
									<code>{sql}</code>
								</button>
							</li>
						))}
					</ol>
					<button type="button" onClick={clear}>
						Clear history
					</button>
				</>
			)}
		</aside>
	);
}

/** Tables with their columns: computed ones first, in the order of COMPUTED. */
function grouped(rows: string[][]): TableColumns[] {
	const tables = new Map<string, TableColumns>();
	for (const [table = "", name = "", type = ""] of rows) {
		const found = tables.get(table) ?? { name: table, columns: [] };
		found.columns.push({ name, type: typeName(type) });
		tables.set(table, found);
	}
	const rank = ({ name }: TableColumns) => (COMPUTED.includes(name) ? COMPUTED.indexOf(name) : COMPUTED.length);
	return [...tables.values()].sort((one, other) => rank(one) - rank(other) || (one.name < other.name ? -1 : 1));
}

/** As docs/reference/query.md names the types. */
function typeName(type: string): string {
	if (type.startsWith("Timestamp")) return "timestamp";
	if (/^U?Int\d+$/.test(type)) return type === "UInt64" ? "bigint unsigned" : "bigint";
	const names: Record<string, string> = { Utf8View: "text", Utf8: "text", Float64: "double", Boolean: "boolean" };
	if (names[type]) return names[type];
	const kind = /^(List|Struct|Binary|Decimal)/.exec(type)?.[1];
	return kind ? ({ List: "list", Struct: "structure", Binary: "binary", Decimal: "decimal" }[kind] ?? type) : type;
}
