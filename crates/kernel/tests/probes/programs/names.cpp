// SPDX-License-Identifier: MIT OR Apache-2.0
namespace shop
{
__attribute__((noinline)) int order(int number)
{
	__asm__ volatile("" ::: "memory");
	return number + 1;
}
__attribute__((noinline)) int order(long number)
{
	__asm__ volatile("" ::: "memory");
	return (int)number + 2;
}
} // namespace shop
int main()
{
	return shop::order(1) + shop::order(2L);
}
