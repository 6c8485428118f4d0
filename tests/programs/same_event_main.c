/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "same_event.h"

int main(void)
{
	piste(same, event, "main");
	record_in_another_file();
	record_in_a_library();
	return 0;
}
