/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The C++ library, and exceptions through and out of sections. */
#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "host.h"

namespace {

struct Section {
	Section() { section_begin(); }
	~Section() { section_end(); }
};

std::map<std::string, int> names;
std::unordered_map<long, std::vector<long>> numbers;

void keep(uint8_t *result, const std::string &text)
{
	memcpy(result, text.data(), std::min<size_t>(text.size(), 2000));
}

void containers(uint8_t *result)
{
	Section s;
	for (int i = 0; i < 40; i++) {
		names["key" + std::to_string(i * 31 % 17)]++;
		numbers[i % 7].push_back(i);
	}
	result[0] = static_cast<uint8_t>(names["key4"]);
	result[1] = static_cast<uint8_t>(numbers[3].size());
	std::vector<int> v(100);
	for (int i = 0; i < 100; i++)
		v[static_cast<size_t>(i)] = i * 7919 % 211;
	std::sort(v.begin(), v.end());
	memcpy(result + 8, v.data(), 400);
}

void streams(uint8_t *result)
{
	Section s;
	std::ostringstream out;
	out << 42 << " " << 3.5 << " " << std::hex << 255 << " " << std::string("text");
	std::istringstream in("17 2.25 word");
	int i;
	double d;
	std::string w;
	in >> i >> d >> w;
	keep(result, out.str() + w + std::to_string(i) + std::to_string(d));
}

void expressions(uint8_t *result)
{
	Section s;
	std::smatch m;
	std::string text = "abc4711";
	if (std::regex_match(text, m, std::regex("([a-z]+)([0-9]+)")))
		keep(result, m[2].str());
}

__attribute__((noinline)) int thrower(int x)
{
	std::string held(static_cast<size_t>(x + 40), 'x');
	if (x % 2)
		throw std::runtime_error(held);
	return x;
}

/* Thrown and caught within. */
void caught(uint8_t *result)
{
	Section s;
	for (int i = 0; i < 4; i++) {
		try {
			result[i] = static_cast<uint8_t>(thrower(i));
		} catch (const std::exception &e) {
			result[i] = static_cast<uint8_t>(strlen(e.what()));
		}
	}
}

/* Thrown within, caught outside: the destructor ends it. */
void thrown(uint8_t *result)
{
	try {
		Section s;
		result[0] = 1;
		thrower(7);
		result[1] = 1;
	} catch (const std::runtime_error &e) {
		result[2] = static_cast<uint8_t>(strlen(e.what()));
	}
}

struct Base {
	virtual ~Base() = default;
	virtual int value() const = 0;
};
struct Five : Base {
	int value() const override { return 5; }
};
struct Seven : Five {
	int value() const override { return 7 + Five::value(); }
};

void virtuals(uint8_t *result)
{
	Section s;
	std::vector<std::shared_ptr<Base>> all;
	for (int i = 0; i < 10; i++) {
		if (i % 3)
			all.push_back(std::make_shared<Five>());
		else
			all.push_back(std::make_shared<Seven>());
	}
	int sum = 0;
	for (const auto &one : all)
		sum += one->value() + (dynamic_cast<Seven *>(one.get()) ? 100 : 0);
	memcpy(result, &sum, sizeof(sum));
}

} // namespace

extern "C" {
extern const struct host_case host_cxx_cases[];
const struct host_case host_cxx_cases[] = {
	{ "cxx-containers", containers }, { "cxx-streams", streams }, { "cxx-regex", expressions },
	{ "cxx-caught", caught },         { "cxx-thrown", thrown },   { "cxx-virtuals", virtuals },
	{ nullptr, nullptr },
};
}
