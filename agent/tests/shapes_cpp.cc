// SPDX-License-Identifier: Apache-2.0 OR MIT
// More shapes of frames: what C++ code and libstdc++ put on the stack.
#include <algorithm>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shapes.h"

namespace {

struct Base {
	virtual ~Base() = default;
	virtual int call(int depth) = 0;
};

struct Derived final : Base {
	std::string keep = "a string that has a destructor";

	int call(int depth) override { return go(depth) + static_cast<int>(keep.size()); }
};

[[gnu::noinline]] int through_virtual(int depth)
{
	Derived d;
	Base *volatile b = &d;

	return b->call(depth);
}

[[gnu::noinline]] int in_catch(int depth)
{
	try {
		throw depth;
	} catch (int d) {
		return go(d) + 1;
	}
}

struct OnUnwind {
	int depth;

	~OnUnwind() { go(depth); }
};

// In a destructor that runs while an exception passes: called from the landing pad.
[[gnu::noinline]] int in_unwind(int depth)
{
	try {
		OnUnwind guard{depth};

		throw 1;
	} catch (int r) {
		return r;
	}
}

[[gnu::noinline]] int through_function(int depth)
{
	std::function<int(int)> f = [](int d) { return go(d); };

	return f(depth) + 1;
}

[[gnu::noinline]] int through_sort(int depth)
{
	std::vector<int> v(20);
	int n = 0;

	for (auto &x : v)
		x = static_cast<int>(v.size()) - ++n;
	std::sort(v.begin(), v.end(), [&](int a, int b) {
		if (depth >= 0)
			go(std::exchange(depth, -1));
		return a < b;
	});
	return v[0];
}

[[gnu::noinline]] int through_call_once(int depth)
{
	std::once_flag flag;

	std::call_once(flag, [depth] { go(depth); });
	return 1;
}

[[gnu::noinline]] int in_thread(int depth)
{
	int r = 0;

	std::thread([&] { r = go(depth); }).join();
	return r;
}

[[gnu::noinline]] int in_async(int depth)
{
	return std::async(std::launch::async, [depth] { return go(depth); }).get();
}

} // namespace

extern "C" {
extern shape *const shapes_cpp[];
shape *const shapes_cpp[] = {through_virtual, in_catch,  in_unwind, through_function, through_sort,
			     through_call_once, in_thread, in_async,  nullptr};
}
