/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "every_field.h"

int main(void)
{
	record_every_field();
	return 0;
}
