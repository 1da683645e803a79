#include "trainer/cuda/card_fabric.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/cuda/collectives.h"
#include "trainer/cuda/cuda_device.h"

namespace trainer::cuda {

// An operation: what each rank contributes, and the place in the group's stream
// behind its work.
struct Round {
  struct Slot {
    Tensor from, to;
    std::vector<std::int64_t> counts = {};  // to send, of an all-to-all
    std::vector<double> values = {};        // of host memory
    MarkPtr ready = nullptr;
  };
  std::vector<Slot> slots;
  std::size_t entered = 0;
  bool complete = false;
  MarkPtr done;
};
using RoundPtr = std::shared_ptr<Round>;
// Both give work to the stream. Slots are in the order of the ranks.
using Work = std::function<void(const std::vector<Round::Slot>&, cudaStream_t)>;

struct CardFabric::Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  Stream stream;
  std::map<std::int64_t, RoundPtr> rounds;  // by number, not yet complete
  // By sender and receiver: transfers that one of them has entered.
  std::map<std::pair<int, int>, std::deque<RoundPtr>> transfers;

  // Enters a slot; the last one to enter completes the round.
  void Enter(Round& round, std::size_t slot, Round::Slot content,
             const Work& work) {
    round.slots[slot] = std::move(content);
    if (++round.entered < round.slots.size()) {
      return;
    }
    for (const Round::Slot& each : round.slots) {
      if (each.ready != nullptr) {
        each.ready->Precede(stream.get());
      }
    }
    work(round.slots, stream.get());
    round.done = std::make_shared<const Mark>(stream.get());
    round.complete = true;
    changed.notify_all();
  }
};

namespace {

void CopyOn(cudaStream_t stream, const std::byte* from, std::byte* to,
            std::int64_t bytes) {
  if (from != to && bytes > 0) {
    Check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes),
                          cudaMemcpyDefault, stream),
          "cudaMemcpyAsync");
  }
}

class RoundEvent final : public Event {
 public:
  RoundEvent(CardFabric& fabric, std::shared_ptr<CardFabric::Meeting> meeting,
             RoundPtr round, std::string what, cudaStream_t stream)
      : fabric_(fabric),
        meeting_(std::move(meeting)),
        round_(std::move(round)),
        what_(std::move(what)),
        stream_(stream) {}

  void Wait() override {
    std::unique_lock lock(meeting_->mutex);
    fabric_.WaitFor(lock, meeting_->changed, what_,
                    [this] { return round_->complete; });
    round_->done->Precede(stream_);
  }

 private:
  CardFabric& fabric_;
  std::shared_ptr<CardFabric::Meeting> meeting_;
  RoundPtr round_;
  std::string what_;
  cudaStream_t stream_;
};

class CardCommunicator final : public Communicator {
 public:
  CardCommunicator(CardFabric& fabric,
                   std::shared_ptr<CardFabric::Meeting> meeting,
                   std::string name, int rank, int size, bool own_stream,
                   CudaDevice& device)
      : fabric_(fabric),
        meeting_(std::move(meeting)),
        name_(std::move(name)),
        rank_(rank),
        size_(size),
        own_stream_(own_stream),
        device_(device) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  EventPtr AllReduce(Tensor data, Reduction reduction) override {
    return Collective("all-reduce", data.bytes(), {data, data},
                      [reduction](const auto& slots, cudaStream_t stream) {
                        Reduce(reduction, 0, slots, stream);
                      });
  }
  EventPtr ReduceScatter(Tensor full, Tensor part) override {
    return Collective("reduce-scatter", full.bytes(), {full, part},
                      [](const auto& slots, cudaStream_t stream) {
                        Reduce(Reduction::kSum, slots.front().to.size, slots,
                               stream);
                      });
  }
  EventPtr AllGather(Tensor part, Tensor full) override {
    return Collective("all-gather", full.bytes(), {part, full},
                      [](const auto& slots, cudaStream_t stream) {
                        for (const Round::Slot& to : slots) {
                          std::int64_t at = 0;
                          for (const Round::Slot& from : slots) {
                            CopyOn(stream, from.from.data, to.to.data + at,
                                   from.from.bytes());
                            at += from.from.bytes();
                          }
                        }
                      });
  }
  EventPtr AllToAll(Tensor from, std::span<const std::int64_t> send_counts,
                    Tensor to,
                    std::span<const std::int64_t> /*receive_counts*/) override {
    Round::Slot slot{from, to};
    slot.counts.assign(send_counts.begin(), send_counts.end());
    return Collective("all-to-all", std::max(from.bytes(), to.bytes()),
                      std::move(slot), ExchangeParts);
  }
  EventPtr Send(Tensor data, int to) override {
    return Transfer("send", 0, {rank_, to}, {data, {}});
  }
  EventPtr Receive(Tensor data, int from) override {
    return Transfer("receive", 1, {from, rank_}, {{}, data});
  }

  void SumOnHost(std::span<double> values) override {
    const RoundPtr round =
        OnHost("sum on host", {values.begin(), values.end()});
    std::fill(values.begin(), values.end(), 0.0);
    for (const Round::Slot& slot : round->slots) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] += slot.values[i];
      }
    }
  }
  void ExchangeOnHost(std::span<const std::int64_t> sent,
                      std::span<std::int64_t> received) override {
    Count("exchange on the host", static_cast<std::int64_t>(sent.size_bytes()));
    const RoundPtr round =
        OnHost("exchange on the host", {sent.begin(), sent.end()});
    const std::size_t each = sent.size() / size_;
    for (std::size_t i = 0; i < received.size(); ++i) {
      received[i] = static_cast<std::int64_t>(
          round->slots[i / each].values[rank_ * each + i % each]);
    }
  }

 private:
  // Sums the buffers `from`; `part`: see ReduceBuffers.
  static void Reduce(Reduction reduction, std::int64_t part,
                     const std::vector<Round::Slot>& slots,
                     cudaStream_t stream) {
    Buffers from;
    Buffers to;
    for (const Round::Slot& slot : slots) {
      from.data[from.count++] = slot.from.data;
      to.data[to.count++] = slot.to.data;
    }
    const Tensor& first = slots.front().from;
    ReduceBuffers(reduction == Reduction::kMax, first.width, first.size, part,
                  from, to, stream);
  }

  static void ExchangeParts(const std::vector<Round::Slot>& slots,
                            cudaStream_t stream) {
    std::vector<std::int64_t> received(slots.size(), 0);  // bytes, per rank
    for (const Round::Slot& from : slots) {
      std::int64_t at = 0;
      for (std::size_t r = 0; r < slots.size(); ++r) {
        const std::int64_t bytes = from.counts[r] * from.from.width;
        CopyOn(stream, from.from.data + at, slots[r].to.data + received[r],
               bytes);
        at += bytes;
        received[r] += bytes;
      }
    }
  }

  EventPtr Collective(const char* operation, std::int64_t bytes,
                      Round::Slot slot, const Work& work) {
    Count(operation, bytes);
    slot.ready = std::make_shared<const Mark>(device_.stream());
    const EventPtr event = Enter(operation, std::move(slot), work).second;
    if (own_stream_) {
      return event;
    }
    event->Wait();
    return nullptr;
  }

  std::pair<RoundPtr, EventPtr> Enter(const char* operation, Round::Slot slot,
                                      const Work& work) {
    fabric_.Check();
    const std::lock_guard lock(meeting_->mutex);
    RoundPtr& place = meeting_->rounds[next_];
    if (place == nullptr) {
      place = std::make_shared<Round>();
      place->slots.resize(size_);
    }
    const RoundPtr round = place;
    meeting_->Enter(*round, rank_, std::move(slot), work);
    if (round->complete) {
      meeting_->rounds.erase(next_);
    }
    ++next_;
    return {round, MakeEvent(operation, round)};
  }

  EventPtr Transfer(const char* operation, std::size_t side,
                    std::pair<int, int> ends, Round::Slot slot) {
    fabric_.Check();
    Count(operation, (side == 0 ? slot.from : slot.to).bytes());
    slot.ready = std::make_shared<const Mark>(device_.stream());
    const std::lock_guard lock(meeting_->mutex);
    std::deque<RoundPtr>& waiting = meeting_->transfers[ends];
    // The first one that the other end has entered and this one has not.
    const bool matches =
        !waiting.empty() && waiting.front()->slots[side].ready == nullptr;
    RoundPtr round;
    if (matches) {
      round = waiting.front();
      waiting.pop_front();
    } else {
      round = std::make_shared<Round>();
      round->slots.resize(2);
      waiting.push_back(round);
    }
    meeting_->Enter(*round, side, std::move(slot),
                    [](const auto& slots, cudaStream_t stream) {
                      CopyOn(stream, slots[0].from.data, slots[1].to.data,
                             slots[0].from.bytes());
                    });
    return MakeEvent(operation, round);
  }

  [[nodiscard]] EventPtr MakeEvent(const char* operation,
                                   const RoundPtr& round) const {
    return std::make_shared<RoundEvent>(
        fabric_, meeting_, round,
        fmt::format("{} of group {}", operation, name_), device_.stream());
  }

  // A round of host memory that all ranks have entered.
  RoundPtr OnHost(const char* operation, std::vector<double> values) {
    Round::Slot slot;
    slot.values = std::move(values);
    const auto [round, event] =
        Enter(operation, std::move(slot), [](const auto&, cudaStream_t) {});
    event->Wait();
    return round;
  }

  CardFabric& fabric_;
  std::shared_ptr<CardFabric::Meeting> meeting_;
  std::string name_;
  int rank_;
  int size_;
  bool own_stream_;
  CudaDevice& device_;
  std::int64_t next_ = 0;  // the number of the next round
};

}  // namespace

CardFabric::CardFabric(int world_size, double timeout_s) : Fabric(timeout_s) {
  if (world_size > kMostRanks) {
    throw std::invalid_argument(
        fmt::format("{} ranks on one card: at most {} are possible", world_size,
                    kMostRanks));
  }
}

CardFabric::~CardFabric() = default;

std::unique_ptr<Communicator> CardFabric::Group(int rank,
                                                const std::string& name,
                                                const std::vector<int>& members,
                                                bool own_stream,
                                                Device& device) {
  const auto own = std::find(members.begin(), members.end(), rank);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Meeting>& meeting =
      meetings_[fmt::format("{} {}", name, fmt::join(members, ","))];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>();
  }
  return std::make_unique<CardCommunicator>(
      *this, meeting, name, static_cast<int>(own - members.begin()),
      static_cast<int>(members.size()), own_stream,
      dynamic_cast<CudaDevice&>(device));
}

}  // namespace trainer::cuda
