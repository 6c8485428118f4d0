// SPDX-License-Identifier: MIT OR Apache-2.0
/** A sentence, in which `commands` are set apart. */
export function Prose({ text }: { text: string }) {
	return <>{text.split("`").map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>))}</>;
}
