// SPDX-License-Identifier: MIT OR Apache-2.0
// Notes of people on times of the trace, which the server keeps beside it: the list, and the dialog in which one is written.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Shown } from "./address";
import * as api from "./api";
import type { Lanes } from "./rows";
import { title } from "./rows";
import { duration, moment } from "./time";
import type { Span } from "./timeline";

const TEXT_MAX = 1000;

/** In ns from the beginning of the recording; both are the same: it is about a moment. */
export interface Note extends Span {
	text: string;
	/** As laneKey names it. */
	lane?: string;
}

/** What is being written; `index`: of the note that it replaces. */
export interface Draft extends Note {
	index: number | null;
}

export interface Notebook {
	notes: readonly Note[];
	/** Why there are none, or no new ones. */
	problem: string | null;
	isWritable: boolean;
	reload: () => void;
	/** Resolves to why it was not saved. */
	save: (change: (notes: readonly Note[]) => Note[]) => Promise<string | null>;
}

/** The notes of a recording. */
export function useNotes(recording: number, origin: bigint, isOpen: boolean): Notebook {
	const [kept, setKept] = useState<{ recording: number; answer: api.Notes } | null>(null);
	const [problem, setProblem] = useState<string | null>(null);
	const [looks, look] = useState(0);
	const reload = useCallback(() => look((count) => count + 1), []);
	useEffect(() => {
		// Another window may have changed them.
		addEventListener("focus", reload);
		return () => removeEventListener("focus", reload);
	}, [reload]);
	useEffect(() => {
		let isOver = false;
		if (!isOpen) return;
		api.notes(recording).then(
			(answer) => {
				if (isOver) return;
				setKept({ recording, answer });
				setProblem(null);
			},
			(error) => {
				if (!isOver) setProblem(String(error.message));
			},
		);
		return () => {
			isOver = true;
		};
	}, [recording, isOpen, looks]);
	const answer = kept?.recording === recording ? kept.answer : null;
	const notes = useMemo(() => (answer?.notes ?? []).map((note) => ofFile(note, origin)), [answer, origin]);
	const save = useCallback(
		async (change: (notes: readonly Note[]) => Note[]) => {
			if (!answer) return problem ?? "The notes have not been loaded yet.";
			try {
				const changed = change(notes).sort((one, other) => one.begin - other.begin);
				const wanted = changed.map((note) => toFile(note, origin));
				setKept({ recording, answer: await api.replaceNotes(recording, answer.version, wanted) });
				return null;
			} catch (error) {
				reload();
				return (error as Error).message;
			}
		},
		[recording, origin, answer, notes, problem, reload],
	);
	return {
		notes,
		problem: problem ?? answer?.unwritable ?? null,
		isWritable: !!answer && !answer.unwritable,
		reload,
		save,
	};
}

const ofFile = ({ begin_ns, end_ns, ...rest }: api.Note, origin: bigint): Note => ({
	begin: Number(BigInt(begin_ns) - origin),
	end: Number(BigInt(end_ns) - origin),
	...rest,
});

const toFile = ({ begin, end, text, lane }: Note, origin: bigint): api.Note => ({
	begin_ns: String(origin + BigInt(Math.round(begin))),
	end_ns: String(origin + BigInt(Math.round(end))),
	text,
	...(lane === undefined ? {} : { lane }),
});

/** A lane in words: numbers of lanes are others when the timeline is made again. */
export function laneKey(id: number, lanes: Lanes): string {
	const lane = lanes.get(id);
	if (!lane) return "";
	if (lane.of != null) return `${lane.kind} of ${laneKey(lane.of, lanes)}`;
	const { kind, cpu, tid, depth, name } = lane;
	return [kind, cpu, tid, depth, name]
		.filter((part) => part !== undefined && part !== null && part !== "")
		.join(" ")
		.slice(0, 70);
}

export const laneOf = (key: string | undefined, lanes: Lanes) =>
	key === undefined ? undefined : lanes.all.find(({ id }) => laneKey(id, lanes) === key);

/** The timeline with a note's time, and its piece or range selected. */
export function noted(note: Note, shown: Shown, lanes: Lanes): Partial<Shown> {
	const lane = laneOf(note.lane, lanes);
	const around = Math.max((note.end - note.begin) * 0.3, 5000);
	return {
		page: "timeline",
		span: { begin: note.begin - around, end: note.end + around },
		selected: lane ? { lane: lane.id, at: note.begin } : null,
		range: lane || note.end <= note.begin ? shown.range : { begin: note.begin, end: note.end },
		open: lane?.of == null ? shown.open : [...new Set([...shown.open, lane.of])],
		filter: "",
	};
}

const when = ({ begin, end }: Span) =>
	end > begin ? `${moment(begin, 1e3)}, ${duration(end - begin)}` : moment(begin, 1e3);

interface EditorProps {
	draft: Draft;
	book: Notebook;
	lanes: Lanes;
	close: () => void;
}

export function NoteEditor({ draft, book, lanes, close }: EditorProps) {
	const dialog = useRef<HTMLDialogElement>(null);
	const [text, setText] = useState(draft.text);
	const [problem, setProblem] = useState<string | null>(null);
	const [isSaving, setSaving] = useState(false);
	useEffect(() => dialog.current?.showModal(), []);
	// What was read in the meantime may have it elsewhere, or not at all.
	const replaced = useRef(draft.index === null ? null : book.notes[draft.index]);
	const keep = async (change: (others: Note[]) => Note[]) => {
		setSaving(true);
		const isOther = (note: Note) => JSON.stringify(note) !== JSON.stringify(replaced.current);
		const why = await book.save((notes) => change(notes.filter(isOther)));
		setSaving(false);
		setProblem(why);
		if (!why) dialog.current?.close();
	};
	const save = () => {
		const { index: _, ...note } = draft;
		if (text.trim()) void keep((others) => [...others, { ...note, text: text.trim() }]);
	};
	const lane = laneOf(draft.lane, lanes);
	const isLocked = isSaving || !book.isWritable;
	return (
		<dialog ref={dialog} class="note" onClose={close} aria-label="Note">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					save();
				}}
			>
				<h2>
					{draft.index === null ? "New note" : "Note"}{" "}
					<small>
						{lane && `${title(lane, lanes)}, `}
						{when(draft)}
					</small>
				</h2>
				<textarea
					aria-label="Text of the note"
					rows={4}
					maxLength={TEXT_MAX}
					value={text}
					onInput={(event) => setText(event.currentTarget.value)}
					onKeyDown={(event) => {
						if (event.key !== "Enter" || !event.ctrlKey) return;
						event.preventDefault();
						if (!isLocked) save();
					}}
				/>
				{(problem ?? book.problem) && <p role="alert">{sentence(problem ?? book.problem!)}</p>}
				<p class="buttons">
					<button type="submit" class="main" disabled={isLocked || !text.trim()}>
						Save <kbd>Ctrl-Enter</kbd>
					</button>
					{draft.index !== null && (
						<button type="button" disabled={isLocked} onClick={() => void keep((others) => others)}>
							Delete
						</button>
					)}
					<button type="button" onClick={() => dialog.current?.close()}>
						Cancel
					</button>
				</p>
			</form>
		</dialog>
	);
}

interface ListProps {
	book: Notebook;
	lanes: Lanes;
	jump: (note: Note) => void;
	edit: (index: number) => void;
	close: () => void;
}

export function NoteList({ book, lanes, jump, edit, close }: ListProps) {
	const dialog = useRef<HTMLDialogElement>(null);
	useEffect(() => dialog.current?.showModal(), []);
	const leave = (act: () => void) => {
		dialog.current?.close();
		act();
	};
	const [problem, setProblem] = useState<string | null>(null);
	const remove = async (note: Note) => setProblem(await book.save((notes) => notes.filter((one) => one !== note)));
	return (
		<dialog ref={dialog} class="notes" onClose={close} aria-label="Notes">
			<h2>Notes</h2>
			{(problem ?? book.problem) && <p role="alert">{sentence(problem ?? book.problem!)}</p>}
			{book.notes.length === 0 && !book.problem && (
				<p class="faint">There are no notes. Select a piece or a range, and press C to write one.</p>
			)}
			<ol>
				{book.notes.map((note, index) => {
					const lane = laneOf(note.lane, lanes);
					return (
						<li key={`${note.begin} ${note.end} ${note.text}`}>
							<button type="button" class="jump" onClick={() => leave(() => jump(note))}>
								<span>{note.text}</span>
								<small>
									{lane ? `${title(lane, lanes)}, ` : ""}
									{when(note)}
								</small>
							</button>
							<button type="button" disabled={!book.isWritable} onClick={() => leave(() => edit(index))}>
								Edit
							</button>
							<button type="button" disabled={!book.isWritable} onClick={() => void remove(note)}>
								Delete
							</button>
						</li>
					);
				})}
			</ol>
			<p class="buttons">
				<button type="button" onClick={() => dialog.current?.close()}>
					Close
				</button>
			</p>
		</dialog>
	);
}

const sentence = (text: string) => `${text[0]!.toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
