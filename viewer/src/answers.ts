// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks the server about what is shown: again whenever that changes. A request whose answer is no longer needed is cancelled.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Answered<T> {
	answer: T | undefined;
	/** Why there is no answer. */
	problem: string | undefined;
}

/** For requests that follow a drag or keys: they are not sent at every step. */
export const REST_MS = 250;
/** How many answers are kept. */
const KEPT_MAX = 32;

interface Manner<T> {
	/** How long nothing must change before the request is sent. */
	restMs?: number;
	/** Whenever a part of this changes, the request is sent again; until its answer arrives, the answer before stays. */
	again?: readonly unknown[];
	/** Answers that never change, by the parts of `of`, which must be texts and numbers. */
	kept?: Map<string, T> | undefined;
}

/** The answer to `ask`, which is called whenever a part of `of` changes; if `of` is null, never. The answer never belongs to another `of`. */
export function useAnswer<T>(
	of: readonly unknown[] | null,
	ask: (signal: AbortSignal) => Promise<T>,
	{ restMs = 0, again = [], kept }: Manner<T> = {},
): Answered<T> {
	const [found, setFound] = useState<(Answered<T> & { of: readonly unknown[] }) | null>(null);
	const known = of === null ? undefined : kept?.get(of.join(" "));
	// Whether answers are kept may change while a request is on its way.
	const keeps = useRef(kept);
	keeps.current = kept;
	useEffect(
		() => {
			if (of === null || known !== undefined) return;
			const controller = new AbortController();
			const start = () =>
				ask(controller.signal).then(
					(answer) => {
						if (keeps.current) keep(keeps.current, of.join(" "), answer);
						if (!controller.signal.aborted) setFound({ of, answer, problem: undefined });
					},
					(error: Error) => {
						if (!controller.signal.aborted) setFound({ of, answer: undefined, problem: error.message });
					},
				);
			const timer = restMs > 0 ? setTimeout(start, restMs) : void start();
			return () => {
				clearTimeout(timer);
				controller.abort();
			};
		},
		of ? [...of, ...again] : [],
	);
	if (known !== undefined) return { answer: known, problem: undefined };
	const isOwn = of !== null && found?.of.length === of.length && found.of.every((part, index) => part === of[index]);
	return isOwn ? found : { answer: undefined, problem: undefined };
}

function keep<T>(kept: Map<string, T>, key: string, answer: T): void {
	kept.set(key, answer);
	for (const oldest of kept.keys()) {
		if (kept.size <= KEPT_MAX) break;
		kept.delete(oldest);
	}
}
