// SPDX-License-Identifier: MIT OR Apache-2.0
/* Throws and catches three times, for the static probes of libstdc++. */

int main()
{
	for (int i = 0; i < 3; i++) {
		try {
			throw i;
		} catch (int) {
		}
	}
	return 0;
}
