#include "trainer/attention_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/gemm_cpu.h"

namespace trainer::attention_cpu_test {

using Numbers = std::vector<double>;

constexpr double kGuard = 77.0;  // behind what may be written

Numbers Draw(std::int64_t size, double phase) {
  Numbers numbers(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::sin(phase + 1.7 * static_cast<double>(i));
  }
  return numbers;
}

// Operands whose rows have more numbers than their heads.
struct Operands {
  explicit Operands(AttentionShape of) : shape(of) {
    shape.q_stride = shape.heads * shape.head_size + 3;
    shape.kv_stride = shape.kv_heads * shape.head_size + 2;
    shape.out_stride = shape.heads * shape.head_size + 1;
    q = Draw(shape.batch * shape.queries * shape.q_stride, 0.1);
    k = Draw(shape.batch * shape.keys * shape.kv_stride, 0.5);
    v = Draw(shape.batch * shape.keys * shape.kv_stride, 0.9);
    dout = Draw(shape.batch * shape.queries * shape.out_stride, 1.3);
  }

  AttentionShape shape;
  Numbers q, k, v, dout;
};

// sum_j p_ij v_j with p = softmax(q k^T / sqrt(size)), as it is written.
Numbers Definition(const Operands& in) {
  const AttentionShape& s = in.shape;
  Numbers out(in.dout.size(), kGuard);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t kv_head = h / (s.heads / s.kv_heads);
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const std::int64_t seen =
            s.causal ? std::min(s.keys, s.query_offset + i + 1) : s.keys;
        const double* q =
            &in.q[(b * s.queries + i) * s.q_stride + h * s.head_size];
        double* row =
            &out[(b * s.queries + i) * s.out_stride + h * s.head_size];
        std::fill_n(row, s.head_size, 0.0);
        double sum = 0.0;
        for (std::int64_t j = 0; j < seen; ++j) {
          const auto at = static_cast<std::size_t>(
              (b * s.keys + j) * s.kv_stride + kv_head * s.head_size);
          double score = 0.0;
          for (std::int64_t c = 0; c < s.head_size; ++c) {
            score += q[c] * in.k[at + static_cast<std::size_t>(c)];
          }
          const double weight =
              std::exp(score / std::sqrt(static_cast<double>(s.head_size)));
          sum += weight;
          for (std::int64_t c = 0; c < s.head_size; ++c) {
            row[c] += weight * in.v[at + static_cast<std::size_t>(c)];
          }
        }
        for (std::int64_t c = 0; c < s.head_size; ++c) {
          row[c] /= sum;
        }
      }
    }
  }
  return out;
}

// Memory of exactly `size` numbers, and a guard.
Numbers Room(std::int64_t size) {
  return Numbers(static_cast<std::size_t>(size) + 1, kGuard);
}

struct Results {
  Numbers out, dq, dk, dv;
};

Results RunBoth(const Operands& in, bool keep) {
  UseOneThread();
  const CpuAttention<double> attention(in.shape);
  Numbers kept = Room(CpuAttention<double>::Kept(in.shape));
  Numbers scratch = Room(CpuAttention<double>::Scratch(in.shape));
  Results results{Numbers(in.dout.size(), kGuard), Numbers(in.q.size(), kGuard),
                  Numbers(in.k.size(), kGuard), Numbers(in.v.size(), kGuard)};
  attention.Forward(in.q.data(), in.k.data(), in.v.data(), results.out.data(),
                    keep ? kept.data() : nullptr, scratch.data());
  attention.Backward(in.dout.data(), in.q.data(), in.k.data(), in.v.data(),
                     keep ? kept.data() : nullptr, scratch.data(),
                     results.dq.data(), results.dk.data(), results.dv.data());
  EXPECT_EQ(kept.back(), kGuard);
  EXPECT_EQ(scratch.back(), kGuard);
  return results;
}

std::vector<AttentionShape> Shapes() {
  const AttentionShape few{.batch = 2,
                           .queries = 3,
                           .keys = 5,
                           .query_offset = 2,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_size = 3,
                           .causal = true};
  AttentionShape all = few;
  all.causal = false;
  AttentionShape blocks = few;  // one, a whole one and a part
  blocks.queries = 64 + 64 + 6;
  blocks.keys = blocks.queries + 30;
  blocks.query_offset = 30;
  AttentionShape whole = blocks;
  whole.queries = whole.keys = 128;
  whole.query_offset = 0;
  return {few, all, blocks, whole};
}

TEST(CpuAttention, OutputsAreThoseOfTheDefinition) {
  for (const AttentionShape& shape : Shapes()) {
    const Operands in(shape);
    const Numbers expected = Definition(in);
    for (const bool keep : {false, true}) {
      const Numbers out = RunBoth(in, keep).out;
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], expected[i], 1e-12) << shape.queries << " " << i;
      }
    }
  }
}

// Along a direction that moves every number of one operand.
double Slope(const Operands& in, Numbers Operands::*operand) {
  constexpr double kStep = 1e-5;
  const auto loss = [&](double step) {
    Operands moved = in;
    const Numbers direction =
        Draw(static_cast<std::int64_t>((moved.*operand).size()), 2.1);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      (moved.*operand)[i] += step * direction[i];
    }
    const Numbers out = Definition(moved);
    double sum = 0.0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      sum += out[i] == kGuard ? 0.0 : out[i] * in.dout[i];
    }
    return sum;
  };
  return (loss(kStep) - loss(-kStep)) / (2 * kStep);
}

double Along(const Numbers& gradient) {
  const Numbers direction =
      Draw(static_cast<std::int64_t>(gradient.size()), 2.1);
  double sum = 0.0;
  for (std::size_t i = 0; i < direction.size(); ++i) {
    sum += gradient[i] == kGuard ? 0.0 : gradient[i] * direction[i];
  }
  return sum;
}

TEST(CpuAttention, GradientsAreFiniteDifferences) {
  for (const AttentionShape& shape : Shapes()) {
    const Operands in(shape);
    for (const bool keep : {false, true}) {
      const Results results = RunBoth(in, keep);
      EXPECT_NEAR(Along(results.dq), Slope(in, &Operands::q), 1e-7);
      EXPECT_NEAR(Along(results.dk), Slope(in, &Operands::k), 1e-7);
      EXPECT_NEAR(Along(results.dv), Slope(in, &Operands::v), 1e-7);
      // Between the heads of two tokens nothing is written.
      EXPECT_EQ(results.dq.back(), kGuard);
      EXPECT_EQ(results.dk.back(), kGuard);
      EXPECT_EQ(results.dv.back(), kGuard);
    }
  }
}

}  // namespace trainer::attention_cpu_test
