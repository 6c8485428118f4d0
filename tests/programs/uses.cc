/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where a record may stand in C++: everything here must compile without a warning. */
#include <cstddef>
#include <piste/context.h>
#include <piste/snapshot.h>
#include <piste/tracepoint.h>
#include <string>
#include <vector>

enum class Colour : uint8_t { Red = 1, Blue = 4 };

PISTE_EVENT(uses, nothing)
PISTE_EVENT(uses, names, (int, measure), (const char *, of), (const char *, string))
PISTE_EVENT(uses, order, (int32_t, id), (const char *, customer), (double, price))
PISTE_EVENT(uses, bytes, PISTE_SEQUENCE(uint8_t, bytes), PISTE_TEXT(text))
PISTE_EVENT(uses, colour, (Colour, colour), (std::nullptr_t, none), (const void *, place), (bool, yes))
PISTE_EVENT_LEVEL(uses, state, ERR, PISTE_ENUM(state, (OPEN, 0), (CLOSED, 1)))
PISTE_EVENT(uses, never_recorded, (int32_t, id))

namespace shop
{

class Till
{
      public:
	Till()
	{
		piste(uses, nothing);
		piste(uses, names, 7, "of", "string");
		piste_snapshot("a till");
	}
	~Till()
	{
		piste(uses, order, static_cast<int32_t>(prices.size()), name.c_str(), 0.0);
	}
	void sell(double price) const
	{
		if (price > 1)
			piste(uses, order, 1, name.c_str(), price);
		else
			piste(uses, nothing);
	}
	template <typename Value> void sell_all(const std::vector<Value> &values)
	{
		for (const Value &value : values)
			piste(uses, order, 2, name.data(), value);
	}

      private:
	std::string name = "till";
	std::vector<double> prices;
};

} // namespace shop

static shop::Till before_main;

int main(int argc, char **argv)
{
	const std::vector<uint8_t> bytes = {1, 2, 3};
	auto in_a_lambda = [&](int id) { piste(uses, order, id, argv[0], 9.5); };

	before_main.sell(2);
	before_main.sell_all<float>({1.5f, 2.5f});
	in_a_lambda(argc);
	piste(uses, bytes, bytes.data(), bytes.size(), argv[0], 2);
	piste(uses, colour, Colour::Blue, nullptr, &before_main, argc > 1);
	if (piste_enabled(uses, state))
		piste(uses, state, 1);
	piste_printf("%d arguments", argc);
	piste_log(NOTICE, "no argument");
	return piste_context_register(
	        "uses", "context", [](void *, piste_value *value) { *value = piste_value_int64(1); }, nullptr);
}
