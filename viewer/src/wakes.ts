// SPDX-License-Identifier: MIT OR Apache-2.0
// Follows the arrows of wake-ups forwards: finds the next wait that the selected thread ended.
import type { Shown } from "./address";
import { useAnswer } from "./answers";
import * as api from "./api";
import type { Lanes } from "./rows";
import { lengthOf } from "./time";

/** A wait that the selected thread ended. */
export interface Wait {
	/** Of the thread that waited. */
	lane: number;
	/** When it ended, in ns from the beginning of the recording, */
	at: number;
	/** and how long it was. */
	length: number;
}

export interface Woken {
	wait: Wait | null;
	/** Absent: there is none up to the end of the trace. */
	searchedUntil: number | null;
}

/** What the selected thread wakes next, from the selected time on; null: it is not known yet, or no thread is selected. */
export function useWakes(
	recording: number,
	origin: bigint,
	lanes: Lanes | null,
	selected: Shown["selected"],
): Woken | null {
	const isThread = selected !== null && lanes?.get(selected.lane)?.kind === "thread";
	const { answer } = useAnswer(isThread ? [recording, origin, selected] : null, async (signal): Promise<Woken> => {
		const at = origin + BigInt(Math.round(selected!.at));
		const ns = (text: string) => Number(BigInt(text) - origin);
		const { wait, until_ns } = await api.wakes(recording, selected!.lane, at, signal);
		const found = wait && {
			lane: wait.lane,
			at: ns(wait.end_ns),
			length: lengthOf(wait),
		};
		return { wait: found, searchedUntil: until_ns === null ? null : ns(until_ns) };
	});
	return answer ?? null;
}
