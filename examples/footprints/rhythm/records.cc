// SPDX-License-Identifier: Apache-2.0 OR MIT
// A map of 400,000 records of 200 bytes, of which 20 change each millisecond; with "thread", another
// thread computes all the time.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>

int main(int argc, char **argv)
{
	std::unordered_map<uint64_t, std::string> records;
	std::mt19937_64 random(1);
	volatile uint64_t sum = 0;

	for (uint64_t key = 0; key < 400000; key++)
		records.emplace(key, std::string(200, 'a'));
	if (argc > 1 && !strcmp(argv[1], "thread"))
		std::thread([&sum] {
			for (uint64_t x = 1;; sum = x)
				for (int i = 0; i < 1000; i++)
					x = x * 6364136223846793005 + 1;
		}).detach();
	for (;;) {
		for (int i = 0; i < 20; i++)
			records[random() % 400000][random() % 200]++;
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
}
