// The k largest numbers of each row, and their places. Called by long.py through ctypes.
//
// A first pass over a row finds a bound that k of its numbers reach. The second pass compares all of them, a vector at
// a time, with that bound and with the smallest of the k kept so far: hardly more than k numbers are above both, so a
// long row takes little more than the time to read it twice.
//
// No header of Python's or torch's, so that a compiler is all it takes to build.

#include <cmath>
#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>
#endif

// One version of a function for each instruction set, of which the loader takes the best; next_* do it by hand.
#if defined(__x86_64__) && defined(__linux__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

namespace {

constexpr int64_t NUMBERS_PER_THREAD = 16384; // less is not worth waking a thread for

// The k-th largest of the maxima of LANES disjoint parts of a row, k <= LANES: k numbers of the row reach it.
template <int LANES>
inline __attribute__((always_inline)) float reached(const float *row, int64_t size, int64_t k) {
  float best[LANES];
  int32_t larger[LANES] = {};
  for (int i = 0; i < LANES; i++) best[i] = -INFINITY;
  for (int64_t place = 0; place + LANES <= size; place += LANES)
    for (int i = 0; i < LANES; i++) best[i] = row[place + i] > best[i] ? row[place + i] : best[i];
  for (int j = 0; j < LANES; j++)
    for (int i = 0; i < LANES; i++) larger[i] += best[j] > best[i];
  float bound = INFINITY;
  for (int i = 0; i < LANES; i++) {
    const float candidate = larger[i] < k ? best[i] : INFINITY;
    bound = candidate < bound ? candidate : bound;
  }
  return bound;
}

FOR_EACH_CPU float reached_by_few(const float *row, int64_t size, int64_t k) { return reached<32>(row, size, k); }
FOR_EACH_CPU float reached_by_many(const float *row, int64_t size, int64_t k) { return reached<128>(row, size, k); }

// The first place from `place` on whose number is above `least`, or `size`. NaN is above every number: "not less or
// equal" finds it.
using Next = int64_t (*)(const float *row, int64_t place, int64_t size, float least);

int64_t next_any(const float *row, int64_t place, int64_t size, float least) {
  while (place < size && row[place] <= least) place++;
  return place;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) int64_t next_avx2(const float *row, int64_t place, int64_t size, float least) {
  const __m256 bound = _mm256_set1_ps(least);
  for (; place + 8 <= size; place += 8) {
    const int found = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(row + place), bound, _CMP_NLE_UQ));
    if (found) return place + __builtin_ctz(found);
  }
  return next_any(row, place, size, least);
}

__attribute__((target("avx512f"))) int64_t next_avx512(const float *row, int64_t place, int64_t size, float least) {
  const __m512 bound = _mm512_set1_ps(least);
  for (; place + 16 <= size; place += 16) {
    const int found = _mm512_cmp_ps_mask(_mm512_loadu_ps(row + place), bound, _CMP_NLE_UQ);
    if (found) return place + __builtin_ctz(found);
  }
  return next_any(row, place, size, least);
}
#endif

Next fastest() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return next_avx512;
  if (__builtin_cpu_supports("avx2")) return next_avx2;
#endif
  return next_any;
}

// Puts x among values[0 ... k), sorted with the largest first, and drops the last one. Equal numbers keep their order,
// and NaN counts as the largest number, as in torch.topk.
void insert(float x, int32_t place, float *values, int32_t *places, int64_t k) {
  int64_t i = k - 1;
  for (; i > 0 && !(x <= values[i - 1] || values[i - 1] != values[i - 1]); i--) {
    values[i] = values[i - 1];
    places[i] = places[i - 1];
  }
  values[i] = x;
  places[i] = place;
}

void search(const float *row, int64_t size, int64_t k, float *values, int32_t *places, Next next) {
  for (int64_t i = 0; i < k; i++) {
    values[i] = -INFINITY;
    places[i] = (int32_t)i;
  }
  float bound = -INFINITY;
  if (k <= 16) bound = reached_by_few(row, size, k);
  else if (k <= 64) bound = reached_by_many(row, size, k);
  bound = std::nextafter(bound, -INFINITY); // to be above it is to reach the bound
  for (int64_t place = 0; (place = next(row, place, size, bound)) < size; place++) {
    if (values[k - 1] != values[k - 1]) return; // nothing is larger than NaN
    insert(row[place], (int32_t)place, values, places, k);
    bound = values[k - 1] > bound ? values[k - 1] : bound;
  }
}

} // namespace

extern "C" {
int64_t source() { return SOURCE; } // checksum of this file, for library.py to compare

void largest(const float *rows, int64_t count, int64_t size, int64_t k, float *values, int32_t *places,
             int64_t threads) {
  static const Next next = fastest();
  const int64_t useful = count * size / NUMBERS_PER_THREAD;
  const int64_t parts = useful < 2 ? 1 : useful < threads ? useful : threads;
#pragma omp parallel for num_threads(parts) if (parts > 1)
  for (int64_t row = 0; row < count; row++)
    search(rows + row * size, size, k, values + row * k, places + row * k, next);
}
}
