// SPDX-License-Identifier: MIT OR Apache-2.0
// A field for queries and filters, with colours and completion: CodeMirror. It lies in a shadow tree, where it can have its styles; the page's policy
// forbids them elsewhere.
import {
	acceptCompletion,
	autocompletion,
	closeCompletion,
	completionStatus,
	moveCompletionSelection,
	selectedCompletionIndex,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder as placeholding } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** What others do with it. */
export interface Editor {
	focus: () => void;
	/** All of its text. */
	select: () => void;
	/** Writes a text where the cursor is. */
	insert: (text: string) => void;
	/** Writes a text instead of what is there. */
	replace: (text: string) => void;
}

export interface EditorProps {
	label: string;
	/** What it begins with, and again whenever this is another text: not what is typed meanwhile. */
	text: string;
	placeholder: string;
	/** What is written. Another one when the words are others. */
	language: Extension;
	/** It is a single line, and Enter submits; else Ctrl-Enter does. */
	isLine?: boolean;
	type: (text: string) => void;
	/** Enter or Ctrl-Enter was pressed; in a line, maybe with Shift. */
	submit: (text: string, isShift: boolean) => void;
	/** Esc, when there is no list of completions to close. */
	leave?: () => void;
	editor?: RefObject<Editor | null>;
}

const COLOURS = syntaxHighlighting(
	HighlightStyle.define([
		{ tag: [tags.keyword, tags.operatorKeyword, tags.bool, tags.null], color: "var(--accent)", fontWeight: "600" },
		{ tag: [tags.string, tags.special(tags.string)], color: "var(--text-of-strings)" },
		{ tag: tags.number, color: "var(--text-of-numbers)" },
		{ tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
		{ tag: tags.special(tags.variableName), color: "var(--accent)" },
	]),
);

const LOOK = EditorView.theme({
	"&": { color: "inherit", height: "100%", fontSize: "inherit" },
	"&.cm-focused": { outline: "none" },
	".cm-scroller": { fontFamily: "inherit", lineHeight: "inherit", overflow: "auto" },
	".cm-content": { padding: "0", caretColor: "currentColor" },
	".cm-line": { padding: "0" },
	".cm-cursor": { borderLeftColor: "currentColor" },
	".cm-placeholder": { color: "var(--faint)" },
	".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
		background: "var(--chosen)",
	},
	".cm-tooltip": { background: "var(--raised)", border: "1px solid var(--line)", borderRadius: "6px" },
	".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "inherit", maxHeight: "16em" },
	".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px" },
	".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
		background: "var(--chosen)",
		color: "inherit",
	},
	".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
	".cm-completionDetail": { fontStyle: "normal", color: "var(--faint)" },
});

function replace(view: EditorView, text: string): void {
	const { doc } = view.state;
	if (doc.toString() !== text) view.dispatch({ changes: { from: 0, to: doc.length, insert: text } });
}

/** Takes the completion that is chosen, or else the first one. */
function complete(view: EditorView): boolean {
	if (completionStatus(view.state) !== "active") return false;
	if (selectedCompletionIndex(view.state) === null) moveCompletionSelection(true)(view);
	return acceptCompletion(view);
}

/**
 * What is typed over a selection. Chromium would give it the style of what it replaces, as an attribute, which the page's policy refuses with a
 * complaint.
 */
const TYPED_OVER = EditorView.domEventHandlers({
	beforeinput: ({ inputType, data }, { state, composing, dispatch }) => {
		if (inputType !== "insertText" || data === null || composing || state.selection.main.empty) return false;
		dispatch(state.update(state.replaceSelection(data), { userEvent: "input.type", scrollIntoView: true }));
		return true;
	},
});

/** Line breaks become spaces, as in fields of one line. */
const ONE_LINE = EditorState.transactionFilter.of((transaction) =>
	transaction.newDoc.lines === 1
		? transaction
		: [
				transaction,
				{
					changes: {
						from: 0,
						to: transaction.newDoc.length,
						insert: transaction.newDoc.toString().replace(/\s*\n\s*/g, " "),
					},
					sequential: true,
				},
			],
);

export function EditorField(props: EditorProps) {
	const { label, text, placeholder, language, isLine = false, editor } = props;
	const place = useRef<HTMLDivElement>(null);
	const view = useRef<EditorView | null>(null);
	const latest = useRef(props);
	latest.current = props;
	const languages = useRef(new Compartment());
	useLayoutEffect(() => {
		const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: "open" });
		const submit = (isShift: boolean) => (view: EditorView) => {
			closeCompletion(view);
			latest.current.submit(view.state.doc.toString(), isShift);
			return true;
		};
		const keys = isLine
			? [{ key: "Enter", run: submit(false), shift: submit(true) }]
			: [{ key: "Mod-Enter", run: submit(false) }];
		const leave = (view: EditorView) => {
			if (!latest.current.leave || completionStatus(view.state) !== null) return false;
			latest.current.leave();
			return true;
		};
		const made = new EditorView({
			root,
			parent: root,
			state: EditorState.create({
				doc: latest.current.text,
				extensions: [
					// None is chosen at first, so that Enter does what it does without a list.
					autocompletion({ icons: false, selectOnOpen: false, interactionDelay: 0 }),
					keymap.of([
						...keys,
						{ key: "Tab", run: complete },
						{ key: "Escape", run: leave },
						...defaultKeymap,
						...historyKeymap,
					]),
					history(),
					drawSelection(),
					COLOURS,
					LOOK,
					placeholding(placeholder),
					EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
					TYPED_OVER,
					EditorView.updateListener.of((update) => {
						if (update.docChanged) latest.current.type(update.state.doc.toString());
					}),
					languages.current.of(latest.current.language),
					isLine ? ONE_LINE : EditorView.lineWrapping,
				],
			}),
		});
		view.current = made;
		if (editor) {
			editor.current = {
				focus: () => made.focus(),
				select: () => {
					made.focus();
					made.dispatch({ selection: { anchor: 0, head: made.state.doc.length } });
				},
				insert: (text) => {
					made.dispatch(made.state.replaceSelection(text));
					made.focus();
				},
				replace: (text) => replace(made, text),
			};
		}
		return () => {
			if (editor) editor.current = null;
			made.destroy();
		};
	}, []);
	useEffect(() => {
		view.current?.dispatch({ effects: languages.current.reconfigure(language) });
	}, [language]);
	useEffect(() => replace(view.current!, text), [text]);
	return <div ref={place} class={`editor ${isLine ? "line" : ""}`} />;
}
