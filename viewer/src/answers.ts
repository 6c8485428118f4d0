// SPDX-License-Identifier: MIT OR Apache-2.0
// What the server says about what is shown: asked for when that is another thing, and given up when nobody waits for it any more.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Answered<T> {
	answer: T | undefined;
	/** Why there is no answer. */
	problem: string | undefined;
}

/** For what follows a drag or the keys: not at every step. */
export const REST_MS = 250;
/** Of answers that are kept, so many. */
const KEPT_MAX = 32;

interface Manner<T> {
	/** How long nothing is another thing before it is asked for. */
	restMs?: number;
	/** It is asked again whenever a part of this is another; the answer before stays until then. */
	again?: readonly unknown[];
	/** Answers that do not change, by what they are of: words and numbers. */
	kept?: Map<string, T> | undefined;
}

/** The answer to `ask`, which is asked whenever a part of `of` is another; null: nothing is asked. The answer is never that of another `of`. */
export function useAnswer<T>(
	of: readonly unknown[] | null,
	ask: (signal: AbortSignal) => Promise<T>,
	{ restMs = 0, again = [], kept }: Manner<T> = {},
): Answered<T> {
	const [found, setFound] = useState<(Answered<T> & { of: readonly unknown[] }) | null>(null);
	const known = of === null ? undefined : kept?.get(of.join(" "));
	// What is asked for may have become final meanwhile, or the reverse.
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
