#include "trainer/rank.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace trainer {
Rank::Rank(const Job& job, int world_rank,
           const std::function<std::int64_t()>& memory_bytes, Fabric& fabric,
           Device& device)
    : job_(job),
      fabric_(fabric),
      device_(device),
      context_{.device = device,
               .arena = arena_,
               .mesh = Mesh(job.config, world_rank),
               .model = job.model,
               .constants = job.constants,
               .config = job.config,
               .bucket_unit_bytes = job.bucket_unit_bytes},
      data_(job.seed, job.batch_size, job.sequence_length) {
  for (int stage = 0; stage < job.config.pp; ++stage) {
    schedules_.push_back(
        trials::StageActions({job.config.pp, job.config.microbatches,
                              job.config.pp > 1 ? job.config.model_chunks : 1},
                             stage));
  }
  context_.timeline.enabled = job.timeline;
  Context& c = context_;
  c.sequences = job.micro_batch_size();
  c.length = job.sequence_length / c.mesh.cp;
  c.offset = c.length * c.mesh.cp_index;
  c.tokens = c.sequences * c.length;
  const bool split = c.splits_sequence();
  c.shard_tokens = split ? c.tokens / c.mesh.tp : c.tokens;
  c.shard_begin = split ? c.shard_tokens * c.mesh.tp_index : 0;
  MakeGroups();
  arena_.Reserve(device, memory_bytes());
  MakeModel();
}

Rank::~Rank() = default;

Communicator* Rank::AddGroup(const std::string& name,
                             std::unique_ptr<Communicator> group) {
  return groups_.emplace_back(name, std::move(group)).second.get();
}

template <typename Same>
Communicator* Rank::AnyGroup(const std::string& name, bool own_stream,
                             Same same) {
  const Mesh& own = context_.mesh;
  return AddGroup(name, fabric_.Group(own.rank, name, own.Members(same),
                                      own_stream, device_));
}

template <typename Same>
Communicator* Rank::GroupOfSeveral(const std::string& name, bool own_stream,
                                   Same same) {
  return context_.mesh.Members(same).size() > 1
             ? AnyGroup(name, own_stream, same)
             : nullptr;
}

void Rank::MakeGroups() {
  world_ = AnyGroup("world", false, [](const Mesh&) { return true; });
  MakeModelGroups();
  MakeReplicaGroups();
  if (context_.mesh.pp > 1) {
    MakePipelineGroups();
  }
  // Collectives take memory when they first run.
  for (const auto& [name, made] : groups_) {
    double nothing = 0.0;
    if (made.get() != forward_ && made.get() != backward_) {
      made->SumOnHost({&nothing, 1});
    }
  }
}

void Rank::MakeModelGroups() {
  const Mesh& own = context_.mesh;
  context_.tp = GroupOfSeveral("tp", false, [&](const Mesh& m) {
    return m.SharesReplica(own) && m.pp_index == own.pp_index;
  });
  context_.cp = GroupOfSeveral("cp", false, [&](const Mesh& m) {
    return m.SharesPart(own) && m.dp_index == own.dp_index;
  });
  context_.ep = GroupOfSeveral("ep", false, [&](const Mesh& m) {
    return m.SharesPart(own) && m.cp_index == own.cp_index &&
           m.dp_index / m.ep == own.dp_index / own.ep;
  });
}

void Rank::MakeReplicaGroups() {
  const Mesh& own = context_.mesh;
  const auto same_part = [&own](const Mesh& m) { return m.SharesPart(own); };
  const auto same_experts = [&own](const Mesh& m) {
    return m.SharesPart(own) && m.dp_index % m.ep == own.dp_index % own.ep;
  };
  const trials::ParallelConfig& config = context_.config;
  const bool reduces_aside = config.zero_stage == 0 || config.overlap_zero_comm;
  const bool gathers_aside = config.overlap_zero_allgather;
  replicas_.tp = context_.tp;
  replicas_.reduce = GroupOfSeveral("dp reduce", reduces_aside, same_part);
  replicas_.gather = GroupOfSeveral("dp gather", gathers_aside, same_part);
  if (context_.model.experts > 0) {
    replicas_.expert_reduce =
        GroupOfSeveral("expert reduce", reduces_aside, same_experts);
    replicas_.expert_gather =
        GroupOfSeveral("expert gather", gathers_aside, same_experts);
  }
}

void Rank::MakePipelineGroups() {
  const Mesh& own = context_.mesh;
  const auto stages = [&](const std::string& name) {
    const std::vector<int> members =
        own.Members([&](const Mesh& m) { return m.SharesPipeline(own); });
    return AddGroup(name, fabric_.Pipeline(own.rank, name, members, device_));
  };
  forward_ = stages("pp forward");
  backward_ = stages("pp backward");
  if (context_.model.tied_embeddings) {
    // A stage between the ends is alone.
    Communicator* tied = AnyGroup("tied", false, [&](const Mesh& m) {
      return m.rank == own.rank ||
             (m.SharesPipeline(own) && m.IsEnd() && own.IsEnd());
    });
    replicas_.tied = own.IsEnd() ? tied : nullptr;
  }
}

// Layers are split evenly over the pp * chunks parts of the model.
void Rank::MakeModel() {
  store_ = std::make_unique<ParameterStore>(context_, replicas_);
  const Mesh& mesh = context_.mesh;
  const int chunks = mesh.pp > 1 ? context_.config.model_chunks : 1;
  const int parts = mesh.pp * chunks;
  Parameter* table = nullptr;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    std::vector<Part>& units = chunks_.emplace_back();
    const int part = chunk * mesh.pp + mesh.pp_index;
    if (part == 0) {
      const int id = store_->AddUnit(chunk);
      units.push_back({MakeEmbedding(context_, *store_, &table), id});
    }
    const int layers = context_.model.layers;
    for (int i = layers * part / parts; i < layers * (part + 1) / parts; ++i) {
      const int id = store_->AddUnit(chunk);
      units.push_back({MakeBlock(context_, *store_, i), id});
    }
    if (part == parts - 1) {
      const int id = store_->AddUnit(chunk);
      units.push_back({MakeHead(context_, *store_, table), id});
    }
  }
  store_->Build(job_.seed);
  loss_ = context_.NewWide(1, Region::kWorkspace);
  context_.loss = loss_.get();
  if (context_.model.max_positions == 0) {
    MakeRotary();
  }
}

// Source: Su et al. (2021), with the pairs of Llama.
void Rank::MakeRotary() {
  const std::int64_t size = context_.model.head_size;
  const std::int64_t half = size / 2;
  std::vector<double> table(job_.sequence_length * size);
  for (int position = 0; position < job_.sequence_length; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(context_.constants.rotary_base,
                                               -2.0 * static_cast<double>(i) /
                                                   static_cast<double>(size));
      table[position * size + i] = std::cos(angle);
      table[position * size + half + i] = std::sin(angle);
    }
  }
  rotary_ = context_.NewWide(static_cast<std::int64_t>(table.size()),
                             Region::kWorkspace);
  if (device_.wide_width() == sizeof(float)) {
    const std::vector<float> narrow(table.begin(), table.end());
    device_.FromHost(narrow.data(), rotary_.get());
  } else {
    device_.FromHost(table.data(), rotary_.get());
  }
  context_.rotary = rotary_.get();
}

bool Rank::Receives(const Action& action) const {
  const int last = static_cast<int>(chunks_.size()) - 1;
  const Mesh& mesh = context_.mesh;
  return action.forward ? mesh.pp_index > 0 || action.chunk > 0
                        : mesh.pp_index < mesh.pp - 1 || action.chunk < last;
}

bool Rank::Sends(const Action& action) const {
  return Receives({!action.forward, action.microbatch, action.chunk});
}

std::pair<int, std::size_t> Rank::Peer(const Action& action, bool sends) const {
  const Mesh& mesh = context_.mesh;
  const bool to_next = action.forward == sends;
  const int unwrapped = mesh.pp_index + (to_next ? 1 : -1);
  const int peer = (unwrapped + mesh.pp) % mesh.pp;
  Action other = action;
  other.chunk += unwrapped == mesh.pp ? 1 : unwrapped < 0 ? -1 : 0;
  const std::vector<Action>& actions = schedules_[peer];
  const auto place = std::find(actions.begin(), actions.end(), other);
  return {peer, static_cast<std::size_t>(place - actions.begin())};
}

void Rank::PostReceive(const Action& action) {
  if (!Receives(action)) {
    return;
  }
  Array data = context_.New(context_.shard_tokens * context_.model.hidden_size);
  Communicator& group = action.forward ? *forward_ : *backward_;
  EventPtr event = group.Receive(data.get(), Peer(action, false).first);
  received_.emplace_back(std::move(data), std::move(event));
}

Array Rank::TakeReceived(const Action& action) {
  if (!Receives(action)) {
    return {};
  }
  auto [data, event] = std::move(received_.front());
  received_.pop_front();
  context_.timeline.TimeWait("wait for receive", event);
  const auto [peer, place] = Peer(action, false);
  FreeSent(peer, place);
  return std::move(data);
}

// When a peer has sent the result of an action, it has received everything that
// its actions up to this one need. Memory thus does not depend on timing.
void Rank::FreeSent(int peer, std::size_t place) {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    if (sent->peer == peer && sent->taken_at <= place) {
      sent->event->Wait();
      sent = sent_.erase(sent);
    } else {
      ++sent;
    }
  }
}

void Rank::Send(const Action& action, Array data) {
  const auto [peer, place] = Peer(action, true);
  Communicator& group = action.forward ? *forward_ : *backward_;
  EventPtr event = group.Send(data.get(), peer);
  sent_.push_back({std::move(data), std::move(event), peer, place});
}

void Rank::Forward(const Action& action) {
  Array x = TakeReceived(action);
  Pending& pending = pending_[{action.microbatch, action.chunk}];
  const std::vector<Part>& units = chunks_[action.chunk];
  context_.timeline.Time("forward", action.microbatch, action.chunk, [&] {
    if (!Receives(action) || !Sends(action)) {
      pending.batch = Upload(context_, prepared_.at(action.microbatch));
    }
    pending.saved.resize(units.size());
    for (std::size_t i = 0; i < units.size(); ++i) {
      const int next = i + 1 < units.size() ? units[i + 1].id : -1;
      store_->Acquire(units[i].id, next);
      x = units[i].unit->Forward(pending.batch, std::move(x), pending.saved[i]);
      store_->Release(units[i].id, next);
    }
  });
  if (Sends(action)) {
    Send(action, std::move(x));
  }
}

void Rank::Backward(const Action& action) {
  Array dy = TakeReceived(action);
  const auto found = pending_.find({action.microbatch, action.chunk});
  const bool last = --backwards_left_[action.chunk] == 0;
  const std::vector<Part>& units = chunks_[action.chunk];
  context_.timeline.Time("backward", action.microbatch, action.chunk, [&] {
    Pending& pending = found->second;
    for (std::size_t i = units.size(); i-- > 0;) {
      const int next = i > 0 ? units[i - 1].id : -1;
      store_->Acquire(units[i].id, next);
      store_->BeginBackward(units[i].id);
      dy = units[i].unit->Backward(pending.batch, std::move(dy),
                                   pending.saved[i]);
      store_->EndBackward(units[i].id, last);
      store_->Release(units[i].id, next);
    }
  });
  pending_.erase(found);
  if (Sends(action)) {
    Send(action, std::move(dy));
  }
}

void Rank::Prepare(int step) {
  step_ = step;
  context_.loss_scale =
      1.0 / static_cast<double>(data_.Labels(context_.model, step));
  prepared_.clear();
  for (const Action& action : schedules_[context_.mesh.pp_index]) {
    const bool at_end = !Receives(action) || !Sends(action);
    if (action.forward && at_end && !prepared_.contains(action.microbatch)) {
      const std::int64_t first =
          (std::int64_t{context_.mesh.dp_index} * job_.config.microbatches +
           action.microbatch) *
          context_.sequences;
      prepared_[action.microbatch] = data_.Make(context_, step, first);
    }
  }
}

double Rank::Step() {
  context_.timeline.step = step_;
  device_.Zero(loss_.get());
  store_->BeginStep();
  const std::vector<Action>& own = schedules_[context_.mesh.pp_index];
  for (const Action& action : own) {
    backwards_left_[action.chunk] += action.forward ? 1 : 0;
  }
  // Receives are posted when their data are needed, or an action ahead.
  const bool ahead =
      context_.config.overlap_p2p && context_.config.model_chunks > 1;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (fabric_.end_reason() != EndReason::kNone) {
      throw Aborted(fabric_.end_message());
    }
    if (!ahead || i == 0) {
      PostReceive(own[i]);
    }
    if (ahead && i + 1 < own.size()) {
      PostReceive(own[i + 1]);
    }
    own[i].forward ? Forward(own[i]) : Backward(own[i]);
  }
  for (const Sent& sent : sent_) {
    context_.timeline.TimeWait("wait for send", sent.event);
  }
  sent_.clear();
  context_.timeline.Time("update", -1, -1, [&] {
    AdamOptions adam = job_.adam;
    adam.step = step_ + 1;
    store_->Update(adam);
  });
  if (step_ + 1 == job_.steps) {
    store_->Finish();
  }
  double loss = 0.0;
  if (device_.wide_width() == sizeof(float)) {
    float narrow = 0.0F;
    device_.ToHost(loss_.get(), &narrow);
    loss = narrow;
  } else {
    device_.ToHost(loss_.get(), &loss);
  }
  // The tp ranks of the last stage have the same loss.
  double mean = context_.mesh.tp_index == 0 ? loss * context_.loss_scale : 0.0;
  device_.Synchronize();
  world_->SumOnHost({&mean, 1});
  return mean;
}

void Rank::Barrier() {
  double nothing = 0.0;
  world_->SumOnHost({&nothing, 1});
}

std::map<std::string, TrafficByOperation> Rank::Traffic() const {
  std::map<std::string, TrafficByOperation> traffic;
  for (const auto& [name, group] : groups_) {
    traffic[name] = group->traffic();
  }
  return traffic;
}

}  // namespace trainer
