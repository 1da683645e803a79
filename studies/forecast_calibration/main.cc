#include <cstdio>
#include <algorithm>
#include <map>
#include <random>
#include <memory>
#include <fstream>
#include <set>
#include <sstream>
#include <cmath>
#include <cstdlib>
#include "common/quantiles.h"
#include "common/statistics.h"
#include "studies/validation/measured_table.h"
#include "surrogates/calibration.h"
#include "trials/simulator/simulator.h"
#include "trials/simulator/error_band.h"
using namespace studies; using namespace surrogates;
int main(int argc,char**argv){
  // table file draws
  const int draws=argc>3?atoi(argv[3]):6;
  const std::string cleanf = argc>4?argv[4]:"";
  const bool fitted = !std::getenv("OTHER");
  std::set<std::string> clean;
  if(!cleanf.empty()){ std::ifstream in(cleanf); std::string l; while(std::getline(in,l)) clean.insert(l);}
  const MeasuredTable t=ReadKnownTable(argv[1], argv[2][0]=='-'?TableOverrides{}:TableOverrides{.framework=argv[2]});
  std::map<std::string,std::vector<CalibrationRow>> by; std::map<std::string,CalibrationPrior> priors;
  std::map<std::string,std::vector<double>> raw;
  std::map<std::string,std::vector<std::unique_ptr<trials::Simulator>>> sims;
  for(size_t i=0;i<t.rows.size();++i){ const MeasuredRow&r=t.rows[i];
    if(!r.left_out.empty()||!r.part.name.empty()||(r.half==Half::kFitted)!=fitted&&r.half!=Half::kAll||!(r.step_time_s>0)) continue;
    if(!clean.empty()&&!clean.count(r.scenario+","+std::to_string(r.config.dp)+","+std::to_string(r.config.tp)+","+std::to_string(r.config.pp)+","+std::to_string(r.config.zero_stage)+","+std::to_string(r.config.micro_batch_size)+","+std::to_string(r.config.microbatches))) continue;
    auto&s=sims[r.scenario]; if(s.empty()) s.push_back(std::make_unique<trials::Simulator>(r.workload,r.cluster,trials::Simulator::Options{r.framework}));
    try{ auto rep=s[0]->Simulate(r.config);
      CalibrationRow c{.config=r.config,.parts_s=StepPartsOf(rep.time,r.config,r.cluster),.step_time_s=r.step_time_s,.predicted_peak_bytes=rep.peak_memory_bytes,.capacity_bytes=rep.capacity_bytes};
      by[r.scenario].push_back(c);
      priors.try_emplace(r.scenario,CalibrationPrior::Of(r.cluster,r.framework_name,.1));
    }catch(const std::exception&){}
  }
  std::map<int,std::vector<double>> errs, meds, inside, width;
  for(auto&[name,rows]:by){ if(rows.size()<20) continue;
    std::mt19937 rng(7);
    std::map<int,std::vector<double>> e,in,w;
    for(int d=0;d<draws;++d){ auto o=rows; std::shuffle(o.begin(),o.end(),rng);
      for(int k:{0,1,3,5,10}){ std::vector<CalibrationRow> train(o.begin(),o.begin()+k);
        Calibration c=Calibrate(train,priors[name]);
        std::vector<trials::ParallelConfig> cf; for(size_t i=10;i<o.size();++i) cf.push_back(o[i].config);
        CalibratedTimes ct(c,cf); std::vector<double> es; double ins=0,ww=0;
        for(size_t i=10;i<o.size();++i){auto tt=ct.Of(o[i].config,o[i].parts_s); es.push_back(std::abs(tt.step_time_s/o[i].step_time_s-1)); ins+=std::abs(std::log(tt.step_time_s/o[i].step_time_s))<=std::log(tt.band); ww+=2*std::log(tt.band);}
        e[k].push_back(common::Mean(es)); meds[k].push_back(common::Median(es)); in[k].push_back(ins/es.size()); w[k].push_back(std::exp(ww/es.size()));
      } }
    if(std::getenv("EACH")){ printf("%-34s n=%3zu c=%.3f",name.c_str(),rows.size(),priors[name].scatter); for(int k:{0,1,3,5,10}) printf(" %5.1f",100*common::Median(e[k])); puts("");}
    for(int k:{0,1,3,5,10}){ errs[k].push_back(common::Median(e[k])); inside[k].push_back(common::Mean(in[k])); width[k].push_back(common::Median(w[k]));}
  }
  printf("%-12s %-18s sc=%zu mean:",argv[1],argv[2],errs[0].size());
  for(int k:{0,1,3,5,10}) printf(" %5.1f",100*common::Mean(errs[k]));
  printf(" | med:"); for(int k:{0,1,3,5,10}) printf(" %5.1f",100*common::Median(meds[k]));
  printf(" | in:"); for(int k:{1,5,10}) printf(" %3.0f",100*common::Mean(inside[k]));
  printf(" | w:"); for(int k:{1,5,10}) printf(" %4.2f",common::Median(width[k])); puts("");
}
