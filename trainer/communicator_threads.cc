#include "trainer/communicator_threads.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/row_kernels.h"

namespace trainer {
namespace {

template <typename T>
void Reduce(Reduction reduction, std::int64_t count, const T* from, T* to) {
  if (reduction == Reduction::kSum) {
    AddTo(count, from, to);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = std::max(to[i], from[i]);
  }
}

// An accumulator of this many bytes stays in the cache.
constexpr std::int64_t kBlock = 4096;

// out[i] = sum over sources of source[begin + i], in their order.
template <typename T>
void ReduceSlice(Reduction reduction, const std::vector<Tensor>& sources,
                 std::int64_t begin, std::int64_t count,
                 const std::vector<Tensor>& outs) {
  std::array<T, kBlock / sizeof(T)> sum;
  for (std::int64_t at = 0; at < count; at += sum.size()) {
    const std::int64_t size = std::min<std::int64_t>(sum.size(), count - at);
    const auto source = [&](std::size_t rank) {
      return reinterpret_cast<const T*>(sources[rank].data) + begin + at;
    };
    std::copy_n(source(0), size, sum.data());
    for (std::size_t rank = 1; rank < sources.size(); ++rank) {
      Reduce<T>(reduction, size, source(rank), sum.data());
    }
    for (const Tensor& out : outs) {
      std::copy_n(sum.data(), size, reinterpret_cast<T*>(out.data) + at);
    }
  }
}

void ReduceSlice(Reduction reduction, const std::vector<Tensor>& sources,
                 std::int64_t begin, std::int64_t count,
                 const std::vector<Tensor>& outs) {
  if (sources.front().width == sizeof(float)) {
    ReduceSlice<float>(reduction, sources, begin, count, outs);
  } else {
    ReduceSlice<double>(reduction, sources, begin, count, outs);
  }
}

// The end of an operation, which another thread completes.
class Completion : public Event {
 public:
  explicit Completion(ThreadFabric& fabric) : fabric_(fabric) {}
  void Wait() override {
    std::unique_lock lock(mutex_);
    fabric_.WaitFor(lock, changed_, "an operation", [this] { return done_; });
  }
  void Complete() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  ThreadFabric& fabric_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

// A send or a receive that waits for its counterpart.
struct Posted {
  Tensor data;
  std::shared_ptr<Completion> done;
};

}  // namespace

struct ThreadFabric::Meeting {
  explicit Meeting(int size) : tensors(size), counts(size), values(size) {}

  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  std::int64_t generation = 0;
  // What each rank brought to the operation under way.
  std::vector<std::pair<Tensor, Tensor>> tensors;
  std::vector<std::span<const std::int64_t>> counts;
  std::vector<std::span<double>> values;
  // By (from, to).
  std::map<std::pair<int, int>, std::deque<Posted>> sends, receives;
};

namespace {

// Runs what it is given in order, on a thread of its own.
class Stream {
 public:
  explicit Stream(ThreadFabric& fabric)
      : fabric_(fabric), thread_([this] { Run(); }) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  EventPtr Add(std::function<void()> work) {
    auto done = std::make_shared<Completion>(fabric_);
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(work), done);
    changed_.notify_all();
    return done;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      const auto item = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        item.first();
        item.second->Complete();
      } catch (const Aborted&) {
        // Who waits for the event sees the end of the trial by itself.
      }
      lock.lock();
    }
  }

  ThreadFabric& fabric_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::function<void()>, std::shared_ptr<Completion>>>
      queue_;
  bool closed_ = false;
  std::thread thread_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadFabric& fabric,
                     std::shared_ptr<ThreadFabric::Meeting> meeting,
                     std::string name, int rank, int size, bool own_stream)
      : fabric_(fabric),
        meeting_(std::move(meeting)),
        name_(std::move(name)),
        rank_(rank),
        size_(size) {
    if (own_stream) {
      stream_ = std::make_unique<Stream>(fabric);
    }
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  EventPtr AllReduce(Tensor data, Reduction reduction) override {
    return Start("all-reduce", data.bytes(), [=, this] {
      Meet("all-reduce", {data, data}, [&] {
        const std::int64_t begin = data.size * rank_ / size_;
        const std::int64_t end = data.size * (rank_ + 1) / size_;
        ReduceSlice(reduction, Firsts(), begin, end - begin,
                    Seconds(begin, end));
      });
    });
  }

  EventPtr ReduceScatter(Tensor full, Tensor part) override {
    return Start("reduce-scatter", full.bytes(), [=, this] {
      Meet("reduce-scatter", {full, part}, [&] {
        ReduceSlice(Reduction::kSum, Firsts(), rank_ * part.size, part.size,
                    {part});
      });
    });
  }

  EventPtr AllGather(Tensor part, Tensor full) override {
    return Start("all-gather", full.bytes(), [=, this] {
      Meet("all-gather", {part, full}, [&] {
        for (int from = 0; from < size_; ++from) {
          CopyTo(meeting_->tensors[from].first,
                 full.Slice(from * part.size, part.size));
        }
      });
    });
  }

  EventPtr AllToAll(Tensor from, std::span<const std::int64_t> send_counts,
                    Tensor to,
                    std::span<const std::int64_t> receive_counts) override {
    // The spans need not outlive the call.
    const std::vector<std::int64_t> sent(send_counts.begin(),
                                         send_counts.end());
    const std::vector<std::int64_t> received(receive_counts.begin(),
                                             receive_counts.end());
    return Start("all-to-all", std::max(from.bytes(), to.bytes()), [=, this] {
      meeting_->counts[rank_] = sent;
      Meet("all-to-all", {from, to}, [&] {
        std::int64_t at = 0;
        for (int other = 0; other < size_; ++other) {
          const auto counts = meeting_->counts[other];
          std::int64_t begin = 0;
          for (int i = 0; i < rank_; ++i) {
            begin += counts[i];
          }
          CopyTo(meeting_->tensors[other].first.Slice(begin, received[other]),
                 to.Slice(at, received[other]));
          at += received[other];
        }
      });
    });
  }

  EventPtr Send(Tensor data, int to) override {
    Count("send", data.bytes());
    return Post({rank_, to}, data, meeting_->sends, meeting_->receives, true);
  }

  EventPtr Receive(Tensor data, int from) override {
    Count("receive", data.bytes());
    return Post({from, rank_}, data, meeting_->receives, meeting_->sends,
                false);
  }

  void SumOnHost(std::span<double> values) override {
    const std::vector<double> own(values.begin(), values.end());
    meeting_->values[rank_] = values;
    std::vector<double> sums(values.size(), 0.0);
    Meet("a sum on the host", {}, [&] {
      for (const auto& other : meeting_->values) {
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i] += other[i];
        }
      }
    });
    std::copy(sums.begin(), sums.end(), values.begin());
  }

  void ExchangeOnHost(std::span<const std::int64_t> sent,
                      std::span<std::int64_t> received) override {
    Count("exchange on the host", static_cast<std::int64_t>(sent.size_bytes()));
    meeting_->counts[rank_] = sent;
    const std::size_t each = sent.size() / size_;
    Meet("an exchange on the host", {}, [&] {
      for (int from = 0; from < size_; ++from) {
        std::ranges::copy(meeting_->counts[from].subspan(rank_ * each, each),
                          received.begin() + from * each);
      }
    });
  }

 private:
  EventPtr Start(const char* operation, std::int64_t bytes,
                 std::function<void()> work) {
    fabric_.Check();
    Count(operation, bytes);
    if (stream_ != nullptr) {
      return stream_->Add(std::move(work));
    }
    work();
    return nullptr;
  }

  // Runs `work` between two meetings of all ranks: after all have brought their
  // tensors and before any may change them.
  template <typename Work>
  void Meet(const char* operation, std::pair<Tensor, Tensor> tensors,
            Work work) {
    meeting_->tensors[rank_] = tensors;
    Barrier(operation);
    work();
    Barrier(operation);
  }

  void Barrier(const char* operation) {
    // A rank that an abort has taken from a meeting has arrived at it for good,
    // so none may follow.
    fabric_.Check();
    std::unique_lock lock(meeting_->mutex);
    const std::int64_t generation = meeting_->generation;
    if (++meeting_->arrived == size_) {
      meeting_->arrived = 0;
      ++meeting_->generation;
      meeting_->changed.notify_all();
      return;
    }
    fabric_.WaitFor(lock, meeting_->changed,
                    fmt::format("{} of {}", operation, name_),
                    [&] { return meeting_->generation != generation; });
  }

  [[nodiscard]] std::vector<Tensor> Firsts() const {
    std::vector<Tensor> tensors;
    for (const auto& pair : meeting_->tensors) {
      tensors.push_back(pair.first);
    }
    return tensors;
  }

  [[nodiscard]] std::vector<Tensor> Seconds(std::int64_t begin,
                                            std::int64_t end) const {
    std::vector<Tensor> tensors;
    for (const auto& pair : meeting_->tensors) {
      tensors.push_back(pair.second.Slice(begin, end - begin));
    }
    return tensors;
  }

  static void CopyTo(const Tensor& from, const Tensor& to) {
    if (from.data != to.data && to.size > 0) {
      std::memcpy(to.data, from.data, to.bytes());
    }
  }

  using Queues = std::map<std::pair<int, int>, std::deque<Posted>>;
  // Whichever of a send and its receive comes last copies.
  EventPtr Post(std::pair<int, int> path, const Tensor& data, Queues& own,
                Queues& others, bool is_send) {
    fabric_.Check();
    auto done = std::make_shared<Completion>(fabric_);
    Posted other;
    {
      const std::lock_guard lock(meeting_->mutex);
      std::deque<Posted>& waiting = others[path];
      if (waiting.empty()) {
        own[path].push_back({data, done});
        return done;
      }
      other = waiting.front();
      waiting.pop_front();
    }
    is_send ? CopyTo(data, other.data) : CopyTo(other.data, data);
    other.done->Complete();
    done->Complete();
    return done;
  }

  ThreadFabric& fabric_;
  std::shared_ptr<ThreadFabric::Meeting> meeting_;
  std::string name_;
  int rank_;
  int size_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

ThreadFabric::ThreadFabric(double timeout_s) : Fabric(timeout_s) {}

ThreadFabric::~ThreadFabric() = default;

std::unique_ptr<Communicator> ThreadFabric::Group(
    int rank, const std::string& name, const std::vector<int>& members,
    bool own_stream, Device& /*device*/) {
  const int size = static_cast<int>(members.size());
  const auto own = std::find(members.begin(), members.end(), rank);
  const std::string label = fmt::format("{} {}", name, fmt::join(members, ","));
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Meeting>& meeting = meetings_[label];
  if (meeting == nullptr) {
    meeting = std::make_shared<Meeting>(size);
  }
  return std::make_unique<ThreadCommunicator>(
      *this, meeting, label, static_cast<int>(own - members.begin()), size,
      own_stream);
}

}  // namespace trainer
