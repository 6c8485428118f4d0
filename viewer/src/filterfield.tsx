// SPDX-License-Identifier: MIT OR Apache-2.0
// A field for a filter, which proposes what a recording has.
import { EditorField, type EditorProps } from "./editor";
import { useFilterLanguage } from "./filters";
import type { Lanes } from "./rows";

interface Props extends Omit<EditorProps, "language" | "isLine"> {
	recording: number;
	lanes: Lanes | null;
}

export function FilterField({ recording, lanes, ...others }: Props) {
	return <EditorField {...others} isLine language={useFilterLanguage(recording, lanes)} />;
}
