// Workloads of decoders with round sizes.

#pragma once

#include "trials/workload.h"

namespace fakes {

// Blocks of 12 hidden_size^2 parameters and a tied embedding.
struct Decoder {
  int layers = 24;
  int hidden_size = 2048;
  int heads = 16;
  int batch_size = 64;
  int sequence_length = 1024;
  int vocabulary = 50'257;

  [[nodiscard]] trials::Workload Workload() const {
    trials::Workload workload;
    trials::Model& model = workload.model;
    model.layers = layers;
    model.hidden_size = hidden_size;
    model.attention_heads = model.kv_heads = heads;
    model.head_size = hidden_size / heads;
    model.ffn_size = 4 * hidden_size;
    model.vocab_size = vocabulary;
    model.tied_embeddings = true;
    workload.batch_size = batch_size;
    workload.sequence_length = sequence_length;
    return workload;
  }
};

}  // namespace fakes
