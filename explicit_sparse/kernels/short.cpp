// Top-k softmax of short rows: scores to weights in one pass, and its gradient. Called by short.py through ctypes.
//
// W rows go side by side through the lanes of SIMD registers: a tile of scores is transposed, so that one vector holds
// one key of W rows, and selection needs only element-wise maxima and minima, without branches. With K the power of two
// from k up, the K best keys so far are kept sorted; each further K keys are sorted by a network and merged in.
//
// The vectors are GCC's extension (clang has it too). x86 gets an AVX2 and an SSE2 version, between which the processor
// decides at run time; AVX-512 gained a tenth on Zen 4 and doubled the time of the build. No header of Python's or
// torch's is needed, only a compiler.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#define INLINE inline __attribute__((always_inline))
#define INLINED __attribute__((always_inline)) // of a lambda: it takes on the caller's instruction set
#define UNROLL _Pragma("GCC unroll 32")

namespace {

constexpr int64_t MAX_KEYS = 1024;           // of a row; 8 rows take 100 kB of the stack
constexpr int64_t MAX_K = 32;                // keys kept
constexpr int64_t SCORES_PER_THREAD = 16384; // less is not worth waking a thread for

template <typename T, int BYTES>
struct Simd {
  typedef T V __attribute__((vector_size(BYTES)));
  typedef decltype(V() < V()) Mask; // integers of the same width, -1 = true
  static constexpr int W = BYTES / sizeof(T);
};

template <typename V, typename T>
INLINE V load(const T *from) {
  V v;
  std::memcpy(&v, from, sizeof(V));
  return v;
}

template <typename V, typename T>
INLINE void store(T *to, const V &v) {
  std::memcpy(to, &v, sizeof(V));
}

template <typename V>
INLINE V larger(const V &a, const V &b) {
  return a > b ? a : b;
}

// ---- transposition ----

// (a0 b0 a1 b1 ...) from the first halves of a and b, or from their second halves with OFFSET = W / 2.
template <int OFFSET, typename V, typename Mask, int... LANE>
INLINE V interleave(const V &a, const V &b, std::integer_sequence<int, LANE...>) {
  constexpr int W = sizeof...(LANE);
#ifdef __clang__
  return __builtin_shufflevector(a, b, (OFFSET + LANE / 2 + LANE % 2 * W)...);
#else
  return __builtin_shuffle(a, b, Mask{(OFFSET + LANE / 2 + LANE % 2 * W)...});
#endif
}

// W x W in place: log2(W) perfect shuffles.
template <typename S>
INLINE void transpose(typename S::V *tile) {
  using V = typename S::V;
  constexpr auto lanes = std::make_integer_sequence<int, S::W>();
  UNROLL for (int round = 1; round < S::W; round *= 2) {
    V next[S::W];
    UNROLL for (int i = 0; i < S::W / 2; i++) {
      next[2 * i] = interleave<0, V, typename S::Mask>(tile[i], tile[i + S::W / 2], lanes);
      next[2 * i + 1] = interleave<S::W / 2, V, typename S::Mask>(tile[i], tile[i + S::W / 2], lanes);
    }
    UNROLL for (int i = 0; i < S::W; i++) tile[i] = next[i];
  }
}

// Calls visit(first column) for tiles of W columns that cover a row of `size`; the last one overlaps the one before.
template <int W, typename Visit>
INLINE void for_tiles(int64_t size, Visit visit) {
  for (int64_t column = 0; column + W < size; column += W) visit(column);
  visit(size > W ? size - W : 0);
}

// ---- sorting networks (bitonic), each vector lane by itself, largest first ----

template <typename V>
INLINE void order(V &a, V &b) {
  const V low = a < b ? a : b;
  a = larger(a, b);
  b = low;
}

// step(0), ..., step(N - 1). Unrolled only where all fits into registers: the compiler takes minutes otherwise.
template <int N, typename Step>
INLINE void repeat(Step step) {
  if (N <= 8) {
    UNROLL for (int i = 0; i < N; i++) step(i);
  } else {
    _Pragma("GCC unroll 1") for (int i = 0; i < N; i++) step(i);
  }
}

template <int N>
struct Network {
  template <typename V>
  static INLINE void merge(V *v) { // sorts what rises and then falls, or the other way round
    repeat<N / 2>([=](int i) INLINED { order(v[i], v[i + N / 2]); });
    halves([=](int first) INLINED { Network<N / 2>::merge(v + first); });
  }
  template <typename V>
  static INLINE void sort(V *v) {
    halves([=](int first) INLINED { Network<N / 2>::sort(v + first); });
    repeat<N / 2>([=](int i) INLINED { order(v[i], v[N - 1 - i]); });
    halves([=](int first) INLINED { Network<N / 2>::merge(v + first); });
  }
  template <typename Step>
  static INLINE void halves(Step step) {
    if (N <= 8) {
      step(0);
      step(N / 2);
    } else {
      _Pragma("GCC unroll 1") for (int first = 0; first < N; first += N / 2) step(first);
    }
  }
};

template <>
struct Network<1> {
  template <typename V>
  static INLINE void merge(V *) {}
  template <typename V>
  static INLINE void sort(V *) {}
};

// The K largest of `size` keys, sorted; -inf where there are fewer.
template <int K, typename V>
INLINE void select(const V *keys, int64_t size, V *best) {
  const V none = V{} - std::numeric_limits<float>::infinity();
  repeat<K>([=](int i) INLINED { best[i] = none; });
  for (int64_t j = 0; j < size; j += K) {
    V more[K];
    repeat<K>([&](int i) INLINED { more[i] = j + i < size ? keys[j + i] : none; });
    Network<K>::sort(more);
    repeat<K>([&](int i) INLINED { best[i] = larger(best[i], more[K - 1 - i]); });
    Network<K>::merge(best);
  }
}

// ---- exp ----

// For -lowest_exponent() <= x <= 0; NaN stays NaN. The float polynomial is Cephes' expf: within 2 units in the last place.
template <typename S>
INLINE typename S::V exponential(const typename S::V &x, float) {
  using V = typename S::V;
  using Mask = typename S::Mask;
  const V shifted = x * 1.44269504f + 12582912.0f; // 1.5 * 2^23: the sum's low bits hold the rounded power of two
  const V power = shifted - 12582912.0f;
  const V r = x - power * 0.693359375f - power * -2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return (V)((Mask)p + ((Mask)shifted << 23));
}

template <typename S>
INLINE typename S::V exponential(const typename S::V &x, double) {
  typename S::V y;
  for (int lane = 0; lane < S::W; lane++) y[lane] = std::exp(x[lane]);
  return y;
}

constexpr float lowest_exponent(float) { return 87.0f; } // below it float32 has no normal numbers
constexpr double lowest_exponent(double) { return 708.0; }

// ---- forward ----

// Scores of W rows, key by key in `keys` (size vectors), become weights in place.
template <int K, typename S, typename T>
INLINE void weigh(typename S::V *keys, int64_t size, int64_t k, bool exactly) {
  using V = typename S::V;
  using Mask = typename S::Mask;
  V best[K];
  select<K>(keys, size, best);
  V threshold = best[0];
  repeat<K>([&](int i) INLINED { threshold = i < k ? best[i] : threshold; });
  Mask ties{}; // how many keys equal to the threshold may stay
  repeat<K>([&](int i) INLINED { ties -= i < k ? best[i] == threshold : Mask{}; });
  // A row without allowed keys: its largest score is -inf, and -inf - -inf would be NaN.
  const V top = best[0] < std::numeric_limits<T>::lowest() ? V{} : best[0];
  const V least = larger(threshold, top - lowest_exponent(T()));

  // "Not less" rather than "at least": NaN stays and makes its row NaN, as in a softmax.
  V sum{};
  if (exactly) {
    for (int64_t j = 0; j < size; j++) {
      const Mask tie = keys[j] == threshold;
      const V weight = exponential<S>(keys[j] - top, T());
      keys[j] = (keys[j] < least) | (tie & (ties <= 0)) ? V{} : weight;
      ties += tie;
      sum += keys[j];
    }
  } else {
    for (int64_t j = 0; j < size; j++) {
      const V weight = exponential<S>(keys[j] - top, T());
      keys[j] = keys[j] < least ? V{} : weight;
      sum += keys[j];
    }
  }
  const V scale = sum == 0 ? V{} : 1 / sum;
  for (int64_t j = 0; j < size; j++) keys[j] *= scale;
}

template <typename S, typename T>
struct Workspace {
  typename S::V keys[MAX_KEYS];                                    // key by key
  T scores[S::W * (MAX_KEYS + 1)], weights[S::W * (MAX_KEYS + 1)]; // row by row, with W numbers behind the last one
};

// W rows; reads and writes up to W numbers behind the last one where size < W.
template <int K, typename S, typename T>
INLINE void forward_block(const T *scores, T *weights, typename S::V *keys, int64_t size, int64_t k, bool exactly) {
  using V = typename S::V;
  for_tiles<S::W>(size, [&](int64_t column) INLINED {
    V tile[S::W];
    UNROLL for (int r = 0; r < S::W; r++) tile[r] = load<V>(scores + r * size + column);
    transpose<S>(tile);
    UNROLL for (int c = 0; c < S::W; c++) keys[column + c] = tile[c];
  });
  weigh<K, S, T>(keys, size, k, exactly);
  for_tiles<S::W>(size, [&](int64_t column) INLINED {
    V tile[S::W];
    UNROLL for (int c = 0; c < S::W; c++) tile[c] = keys[column + c];
    transpose<S>(tile);
    // In this order, so that a row puts right what the one before wrote behind its end.
    UNROLL for (int r = 0; r < S::W; r++) store(weights + r * size + column, tile[r]);
  });
}

template <int K, typename S, typename T>
INLINE void forward_rows(const T *scores, T *weights, Workspace<S, T> &work, int64_t rows, int64_t size, int64_t k,
                         bool exactly) {
  for (int64_t row = 0; row < rows; row += S::W) {
    const int64_t here = rows - row < S::W ? rows - row : S::W;
    const T *from = scores + row * size;
    T *to = weights + row * size;
    if (here == S::W && size >= S::W) {
      forward_block<K, S>(from, to, work.keys, size, k, exactly);
    } else {
      std::memcpy(work.scores, from, here * size * sizeof(T));
      std::memset(work.scores + here * size, 0, ((S::W - here) * size + S::W) * sizeof(T));
      forward_block<K, S>(work.scores, work.weights, work.keys, size, k, exactly);
      std::memcpy(to, work.weights, here * size * sizeof(T));
    }
  }
}

template <typename S, typename T>
INLINE void forward(const T *scores, T *weights, int64_t rows, int64_t size, int64_t k, bool exactly) {
  Workspace<S, T> work;
  if (k <= 8) forward_rows<8, S>(scores, weights, work, rows, size, k, exactly);
  else if (k <= 16) forward_rows<16, S>(scores, weights, work, rows, size, k, exactly);
  else forward_rows<32, S>(scores, weights, work, rows, size, k, exactly);
}

// ---- backward: grad = w * (g - sum(w * g)) ----

// W rows; reads and writes up to W numbers behind the last one where size < W.
template <typename S, typename T>
INLINE void backward_block(const T *weights, const T *grad_weights, T *grad_scores, int64_t size) {
  using V = typename S::V;
  typename S::Mask lane;
  UNROLL for (int i = 0; i < S::W; i++) lane[i] = i;
  V sums[S::W]; // of row r in the lanes of sums[r], then, transposed, in lane r
  UNROLL for (int r = 0; r < S::W; r++) {
    const T *w = weights + r * size, *g = grad_weights + r * size;
    V sum{};
    int64_t column = 0;
    for (; column + S::W <= size; column += S::W) sum += load<V>(w + column) * load<V>(g + column);
    if (column < size) { // the rest of the row is the end of its last W numbers, or the row itself where it is shorter
      const int64_t start = size > S::W ? size - S::W : 0;
      const V products = load<V>(w + start) * load<V>(g + start);
      sum += (lane >= (decltype(lane[0] + 0))(column - start)) & (lane < (decltype(lane[0] + 0))size) ? products : V{};
    }
    sums[r] = sum;
  }
  transpose<S>(sums);
  V sum = sums[0];
  UNROLL for (int i = 1; i < S::W; i++) sum += sums[i];
  for (int r = 0; r < S::W; r++) {
    const T *w = weights + r * size, *g = grad_weights + r * size;
    for_tiles<S::W>(size, [&](int64_t column) INLINED {
      store(grad_scores + r * size + column, load<V>(w + column) * (load<V>(g + column) - sum[r]));
    });
  }
}

template <typename S, typename T>
INLINE void backward(const T *weights, const T *grad_weights, T *grad_scores, int64_t rows, int64_t size) {
  T w[S::W * (MAX_KEYS + 1)], g[S::W * (MAX_KEYS + 1)], grad[S::W * (MAX_KEYS + 1)];
  for (int64_t row = 0; row < rows; row += S::W) {
    const int64_t here = rows - row < S::W ? rows - row : S::W, start = row * size;
    if (here == S::W && size >= S::W) {
      backward_block<S>(weights + start, grad_weights + start, grad_scores + start, size);
    } else {
      const int64_t rest = ((S::W - here) * size + S::W) * sizeof(T);
      std::memcpy(w, weights + start, here * size * sizeof(T));
      std::memcpy(g, grad_weights + start, here * size * sizeof(T));
      std::memset(w + here * size, 0, rest);
      std::memset(g + here * size, 0, rest);
      backward_block<S>(w, g, grad, size);
      std::memcpy(grad_scores + start, grad, here * size * sizeof(T));
    }
  }
}

// ---- one version for each instruction set ----

template <typename T>
using Forward = void (*)(const T *, T *, int64_t, int64_t, int64_t, bool);
template <typename T>
using Backward = void (*)(const T *, const T *, T *, int64_t, int64_t);

#define VERSION(NAME, BYTES, ATTRIBUTE)                                                                               \
  ATTRIBUTE void forward_##NAME(const float *s, float *w, int64_t rows, int64_t size, int64_t k, bool exactly) {      \
    forward<Simd<float, BYTES>>(s, w, rows, size, k, exactly);                                                        \
  }                                                                                                                   \
  ATTRIBUTE void backward_##NAME(const float *w, const float *g, float *grad, int64_t rows, int64_t size) {           \
    backward<Simd<float, BYTES>>(w, g, grad, rows, size);                                                             \
  }

VERSION(any, 16, )
#ifdef __x86_64__
VERSION(avx2, 32, __attribute__((target("avx2,fma"))))

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
Forward<float> best_forward(float) { return has_avx2() ? forward_avx2 : forward_any; }
Backward<float> best_backward(float) { return has_avx2() ? backward_avx2 : backward_any; }
#else
Forward<float> best_forward(float) { return forward_any; }
Backward<float> best_backward(float) { return backward_any; }
#endif
// float64 is for checks, such as gradcheck: right, not fast.
Forward<double> best_forward(double) { return forward<Simd<double, 16>>; }
Backward<double> best_backward(double) { return backward<Simd<double, 16>>; }

// Calls run(first row, number of rows) on at most `threads` threads: those of the OpenMP that torch has loaded.
template <typename Run>
void in_parallel(int64_t rows, int64_t size, int64_t threads, Run run) {
  const int64_t useful = rows * size / SCORES_PER_THREAD;
  const int64_t parts = useful < 2 || threads < 2 ? 1 : useful < threads ? useful : threads;
  if (parts == 1) return run(0, rows);
  const int64_t share = ((rows + parts - 1) / parts + 7) / 8 * 8; // whole vectors of rows
#pragma omp parallel for num_threads(parts)
  for (int64_t part = 0; part < parts; part++) {
    const int64_t first = part * share;
    if (first < rows) run(first, rows - first < share ? rows - first : share);
  }
}

template <typename T>
void topk_softmax(const T *s, T *w, int64_t rows, int64_t size, int64_t k, int64_t exactly, int64_t threads) {
  in_parallel(rows, size, threads, [=, run = best_forward(T())](int64_t first, int64_t count) {
    run(s + first * size, w + first * size, count, size, k, exactly);
  });
}

template <typename T>
void softmax_backward(const T *w, const T *g, T *grad, int64_t rows, int64_t size, int64_t threads) {
  in_parallel(rows, size, threads, [=, run = best_backward(T())](int64_t first, int64_t count) {
    run(w + first * size, g + first * size, grad + first * size, count, size);
  });
}

} // namespace

extern "C" {
int64_t source() { return SOURCE; } // checksum of this file, for short.py to compare
int64_t max_keys() { return MAX_KEYS; }
int64_t max_k() { return MAX_K; }

void forward_float(const float *s, float *w, int64_t n, int64_t size, int64_t k, int64_t exactly, int64_t threads) {
  topk_softmax(s, w, n, size, k, exactly, threads);
}
void forward_double(const double *s, double *w, int64_t n, int64_t size, int64_t k, int64_t exactly, int64_t threads) {
  topk_softmax(s, w, n, size, k, exactly, threads);
}
void backward_float(const float *w, const float *g, float *grad, int64_t n, int64_t size, int64_t threads) {
  softmax_backward(w, g, grad, n, size, threads);
}
void backward_double(const double *w, const double *g, double *grad, int64_t n, int64_t size, int64_t threads) {
  softmax_backward(w, g, grad, n, size, threads);
}
}
