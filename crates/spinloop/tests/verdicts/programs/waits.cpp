// Functions whose only loop waits. None is ever run.
#include <atomic>
#include <mutex>
#include <thread>

std::atomic<bool> flag;
std::atomic<int> word;
std::atomic_flag latch = ATOMIC_FLAG_INIT;
std::mutex mutex;

extern "C" {
void w_load() { while (!flag.load()) ; }
void w_load_acquire() { while (!flag.load(std::memory_order_acquire)) __builtin_ia32_pause(); }
void w_cast() { while (!flag) std::this_thread::yield(); }
void w_int() { while (word.load(std::memory_order_relaxed) != 3) ; }
void w_flag() { while (latch.test_and_set(std::memory_order_acquire)) ; }
void w_flag_pause() { while (latch.test_and_set(std::memory_order_acquire)) __builtin_ia32_pause(); }
void w_weak()
{
    int expected = 0;
    while (!word.compare_exchange_weak(expected, 1, std::memory_order_acquire)) expected = 0;
}
void w_exchange() { while (word.exchange(1)) while (word.load(std::memory_order_relaxed)) __builtin_ia32_pause(); }
void w_pointer(std::atomic<int> *p, int v) { while (p->load(std::memory_order_acquire) < v) ; }
void w_bounded() { for (int i = 0; i < 1000 && !flag.load(std::memory_order_acquire); ++i) __builtin_ia32_pause(); }
}
