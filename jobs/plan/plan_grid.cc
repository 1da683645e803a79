#include "jobs/plan/plan_grid.h"

#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/parallel.h"
#include "common/units.h"

namespace jobs {
namespace {

using common::InputError;
using trials::Cluster;

// What sets the value of an axis in a request, or in the cluster of its job.
template <typename Of>
struct Stepper {
  GridAxis axis;
  std::vector<std::function<void(Of&)>> set;  // [values]

  // Sets the value of the last digit of a number whose digits are the places of
  // values, and removes the digit.
  void Set(std::size_t& digits, Of& of) const {
    set[digits % set.size()](of);
    digits /= set.size();
  }
};
using RequestStepper = Stepper<ForecastRequest>;
using LinkStepper = Stepper<Cluster>;

template <typename Value>
RequestStepper Steps(GridAxis axis, const std::vector<Value>& values,
                     const Value& present, Value ForecastRequest::*field) {
  RequestStepper stepper{std::move(axis), {}};
  for (const Value& value : values) {
    if (value == present) {
      stepper.axis.present = static_cast<int>(stepper.set.size());
    }
    stepper.axis.values.push_back(fmt::format("{}", value));
    // The present value stays as the user wrote it.
    stepper.set.emplace_back([value, present, field](ForecastRequest& request) {
      if (value != present) {
        request.*field = value;
      }
    });
  }
  return stepper;
}

LinkStepper Bandwidths(GridAxis axis, const trials::Link& present,
                       trials::Link Cluster::*link) {
  LinkStepper stepper{std::move(axis), {}};
  for (const double factor : {0.5, 1.0, 2.0}) {
    const std::string text = fmt::format(
        "{:.6g}", factor * present.bandwidth_bytes_per_s / common::kGiga);
    stepper.axis.values.push_back(text);
    const double bytes_per_s = factor == 1.0 ? present.bandwidth_bytes_per_s
                                             : std::stod(text) * common::kGiga;
    stepper.set.emplace_back([bytes_per_s, link](Cluster& cluster) {
      (cluster.*link).bandwidth_bytes_per_s = bytes_per_s;
    });
  }
  stepper.axis.present = 1;
  return stepper;
}

// Halves, where they are whole, and doubles.
std::vector<int> Around(int present) {
  std::vector<int> values = {present, 2 * present};
  if (present % 2 == 0) {
    values.insert(values.begin(), present / 2);
  }
  return values;
}

// "4x8"
std::vector<std::string> SizesAround(const Cluster& cluster) {
  const int gpus = cluster.gpus_per_node;
  std::vector<std::string> sizes;
  if (cluster.nodes == 1 && gpus % 2 == 0) {
    sizes.push_back(fmt::format("1x{}", gpus / 2));
  }
  for (const int nodes : Around(cluster.nodes)) {
    sizes.push_back(fmt::format("{}x{}", nodes, gpus));
  }
  return sizes;
}

// Without the values that are no valid request.
std::vector<RequestStepper> RequestSteppers(
    const ForecastRequest& request, const Cluster& cluster,
    const ForecastersOf& forecasters_of) {
  const std::string size =
      fmt::format("{}x{}", cluster.nodes, cluster.gpus_per_node);
  std::vector<RequestStepper> steppers = {
      Steps<std::string>({"--gpus", "GPUs (nodes x GPUs)", "", {}},
                         SizesAround(cluster), size, &ForecastRequest::gpus),
      Steps<int>({"--batch", "Batch", "sequences", {}},
                 Around(request.batch_size), request.batch_size,
                 &ForecastRequest::batch_size),
      Steps<int>({"--seq", "Sequence", "tokens", {}},
                 Around(request.sequence_length), request.sequence_length,
                 &ForecastRequest::sequence_length)};
  const auto is_valid = [&](const RequestStepper& stepper, std::size_t i) {
    ForecastRequest one = request;
    stepper.set[i](one);
    try {
      return !forecasters_of(one).empty();  // a job of each framework
    } catch (const InputError&) {
      return false;
    }
  };
  for (RequestStepper& stepper : steppers) {
    for (int i = static_cast<int>(stepper.set.size()) - 1; i >= 0; --i) {
      if (i != stepper.axis.present && !is_valid(stepper, i)) {
        stepper.set.erase(stepper.set.begin() + i);
        stepper.axis.values.erase(stepper.axis.values.begin() + i);
        stepper.axis.present -= i < stepper.axis.present ? 1 : 0;
      }
    }
  }
  return steppers;
}

std::vector<LinkStepper> LinkSteppers(const Cluster& cluster) {
  std::vector<LinkStepper> steppers;
  if (cluster.gpus_per_node > 1) {
    steppers.push_back(
        Bandwidths({"--intra", "Bandwidth in a node", "GB/s per GPU", {}},
                   cluster.intra, &Cluster::intra));
  }
  if (cluster.inter.bandwidth_bytes_per_s > 0.0) {
    steppers.push_back(
        Bandwidths({"--inter", "Bandwidth between nodes", "GB/s per card", {}},
                   cluster.inter, &Cluster::inter));
  }
  return steppers;
}

template <typename Of>
std::size_t CountOf(const std::vector<Stepper<Of>>& steppers,
                    std::vector<GridAxis>& axes) {
  std::size_t count = 1;
  for (const Stepper<Of>& stepper : steppers) {
    axes.push_back(stepper.axis);
    count *= stepper.set.size();
  }
  return count;
}

// The axes in which a point differs from the request.
int Changes(const std::vector<GridAxis>& axes, std::size_t point) {
  int changes = 0;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const std::size_t values = axes[a].values.size();
    changes += static_cast<int>(point % values) != axes[a].present ? 1 : 0;
    point /= values;
  }
  return changes;
}

// The largest number of axes that may change together.
int Together(const PlanGrid& grid, std::int64_t candidates, std::int64_t most) {
  std::vector<std::int64_t> points(grid.axes.size() + 1, 0);
  for (std::size_t i = 0; i < grid.points.size(); ++i) {
    ++points[Changes(grid.axes, i)];
  }
  int together = 1;
  std::int64_t sum = points[0] + points[1];
  for (std::size_t changes = 2; changes < points.size(); ++changes) {
    sum += points[changes];
    together = sum * candidates <= most ? static_cast<int>(changes) : together;
  }
  return together;
}

// The fastest configurations with the bandwidths that the digits choose.
void AddPoint(const std::vector<std::unique_ptr<Forecaster>>& forecasters,
              const std::vector<LinkStepper>& of_links, std::size_t digits,
              PlanGrid::Point& point) {
  for (const auto& forecaster : forecasters) {
    std::optional<Prediction>& fastest = point.fastest.emplace_back();
    if (!forecaster) {
      continue;
    }
    Cluster changed = forecaster->job().cluster;
    point.gpus = changed.gpus();
    std::size_t rest = digits;
    for (std::size_t a = of_links.size(); a-- > 0;) {
      of_links[a].Set(rest, changed);
    }
    fastest = Forecaster(*forecaster, std::move(changed))
                  .FastestWithin(common::kInfinity);
  }
}

}  // namespace

PlanGrid MakeGrid(const ForecastRequest& request, const Cluster& cluster,
                  std::int64_t candidates, const ForecastersOf& forecasters_of,
                  std::int64_t most) {
  PlanGrid grid;
  const auto of_request = RequestSteppers(request, cluster, forecasters_of);
  const auto of_links = LinkSteppers(cluster);
  const std::size_t requests = CountOf(of_request, grid.axes);
  const std::size_t links = CountOf(of_links, grid.axes);
  grid.points.resize(requests * links);
  grid.together = Together(grid, candidates, most);
  for (std::size_t r = 0; r < requests; ++r) {
    std::vector<std::unique_ptr<Forecaster>> forecasters;
    for (std::size_t l = 0; l < links; ++l) {
      const std::size_t p = r * links + l;
      if (Changes(grid.axes, p) > grid.together) {
        continue;
      }
      if (forecasters.empty()) {
        ForecastRequest one = request;
        std::size_t digits = r;
        for (std::size_t a = of_request.size(); a-- > 0;) {
          of_request[a].Set(digits, one);
        }
        try {
          forecasters = forecasters_of(one);
        } catch (const InputError&) {
          break;  // valid alone, and not together
        }
      }
      AddPoint(forecasters, of_links, l, grid.points[p]);
    }
  }
  return grid;
}

}  // namespace jobs
