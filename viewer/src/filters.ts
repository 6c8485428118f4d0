// SPDX-License-Identifier: MIT OR Apache-2.0
// Filters as people write them: the colours of their words, and what may come next (docs/reference/filter.md).
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { StreamLanguage } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { useMemo } from "preact/hooks";
import { useAnswer } from "./answers";
import * as api from "./api";
import type { Lanes } from "./rows";

/** What a trace has that a filter can name. */
export interface Names {
	/** Events with their fields. */
	events: ReadonlyMap<string, readonly string[]>;
	/** Fields of all events. */
	contexts: readonly string[];
	threads: readonly string[];
}

/** What every event has. */
const COMMON: readonly (readonly [name: string, what: string])[] = [
	["name", "the event's name"],
	["$comm", "thread name"],
	["$tid", "thread ID"],
	["$pid", "process ID"],
	["$cpu", "CPU"],
	["$time", "ns since 1970"],
];
const OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "=~", "!~", "&", "|", "^", "<<", ">>"];
const FIELD = String.raw`(?:\$?[A-Za-z_][\w.$]*|\x60[^\x60]*\x60)`;
/** A comparison whose right side is being written: of a text, with or without its quote. */
const COMPARED = new RegExp(String.raw`(${FIELD})\s*(==|!=|=~|!~|~)\s*(["']?)([^"']*)$`);
/** A value has been named, and a comparison follows. */
const NAMED = new RegExp(String.raw`(?:^|[(!&|]\s*)${FIELD}\s+((?!&&|\|\|)[=!<>~&|^]*)$`);

/** What can be written at the end of a part of a filter, and where it begins. */
export function completions(before: string, names: Names): { from: number; options: Completion[] } | null {
	// In a text, operators and names mean nothing: only its beginning does.
	const isInText = quoteAtEnd(before);
	const compared = COMPARED.exec(before);
	if (compared) {
		const [, field, , quote, begun] = compared as unknown as [string, string, string, string, string];
		if (quote || begun === "") {
			const values = valuesOf(field, names);
			const from = before.length - begun.length;
			return values && { from, options: values.map((label) => ({ label, ...(!quote && { apply: quoted(label) }) })) };
		}
	}
	if (isInText) return null;
	const named = NAMED.exec(before);
	if (named) {
		return { from: before.length - named[1]!.length, options: OPERATORS.map((label) => ({ label, type: "operator" })) };
	}
	const word = /[$A-Za-z_][\w.$]*$|$/.exec(before)![0];
	const rest = before.slice(0, before.length - word.length).trimEnd();
	// A value begins here, not an operator, nor a number.
	if (rest !== "" && !/(&&|\|\||[(!])$/.test(rest)) return null;
	return { from: before.length - word.length, options: fields(before, names) };
}

/** Texts that a field can be. */
function valuesOf(field: string, { events, threads }: Names): readonly string[] | null {
	if (field === "name" || field === "$name") return [...events.keys()];
	return /comm$/.test(field) ? threads : null;
}

/** Fields of the events that the filter names come first. */
function fields(text: string, { events, contexts }: Names): Completion[] {
	const named = [...text.matchAll(/\$?\bname\s*==\s*["']([^"']+)["']/g)].map(([, name]) => name!);
	const found = new Map<string, Completion>();
	const add = (label: string, detail: string, boost: number) => {
		if (!found.has(label)) found.set(label, { label, detail, boost });
	};
	for (const name of named) for (const field of events.get(name) ?? []) add(field, name, 3);
	for (const [name, what] of COMMON) add(name, what, 2);
	for (const name of contexts) add(name, "all events", 1);
	for (const [event, fields] of events) for (const field of fields) add(field, event, 0);
	return [...found.values()].map((field) =>
		/^\$?[A-Za-z_]\w*$/.test(field.label) ? field : { ...field, apply: `\`${field.label}\`` },
	);
}

const quoted = (text: string): string => `"${text.replace(/["\\]/g, "\\$&")}"`;

/** Whether a text ends within quotes. */
function quoteAtEnd(text: string): boolean {
	let quote = "";
	for (let at = 0; at < text.length; at++) {
		const sign = text[at]!;
		if (sign === "\\") at++;
		else if (quote ? sign === quote : sign === '"' || sign === "'" || sign === "`") quote = quote ? "" : sign;
	}
	return quote !== "";
}

const WORDS = StreamLanguage.define({
	token(stream) {
		if (stream.eatSpace()) return null;
		if (stream.match(/^(["'])(?:\\.|(?!\1).)*\1?/)) return "string";
		if (stream.match(/^-?(0[xob][\da-fA-F]+|\d+(\.\d+)?(e[+-]?\d+)?)(ns|us|ms|s|K|M|G)?\b/)) return "number";
		if (stream.match(/^(exists|true|false)\b/)) return "keyword";
		if (stream.match(/^\$[\w.]+/) || stream.match(/^name\b/)) return "variableName.special";
		if (stream.match(/^(&&|\|\||==|!=|<=|>=|=~|!~|[<>~!&])/)) return "operator";
		stream.next();
		stream.eatWhile(/[\w.]/);
		return null;
	},
});

/** For an editor. */
function filterLanguage(names: Names): Extension {
	const source = (context: CompletionContext): CompletionResult | null => {
		const found = completions(context.state.sliceDoc(0, context.pos), names);
		if (!found || found.options.length === 0) return null;
		return { ...found, validFor: /^[\w.$]*$/ };
	};
	return [WORDS, WORDS.data.of({ autocomplete: source })];
}

/** As many names of threads are proposed. */
const THREADS_MAX = 1000;

/** The language of filters, for an editor, with the names that a recording has. */
export function useFilterLanguage(recording: number, lanes: Lanes | null): Extension {
	const { answer } = useAnswer([recording], (signal) => api.classes(recording, signal));
	return useMemo(() => {
		const threads = new Set(lanes?.all.flatMap(({ kind, name }) => (kind === "thread" && name ? [name] : [])));
		return filterLanguage({
			events: new Map(Object.entries(answer?.events ?? {})),
			contexts: answer?.contexts ?? [],
			threads: [...threads].slice(0, THREADS_MAX),
		});
	}, [answer, lanes]);
}
