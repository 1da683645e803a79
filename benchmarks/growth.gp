# Draws what `benchmarks/suggestion.py growth` measured in `folder`.

set datafile separator ','
set key top left samplen 2
set grid
set logscale xy
set format x '10^{%T}'
set style data linespoints
series(i) = i == 0 ? 'one process, likelihood' : i == 1 ? 'OPPA, two processes' : 'OPPA, appending'
set style line 1 lc rgb '#0072b2' lw 2 pt 7 ps 0.7
set style line 2 lc rgb '#d55e00' lw 2 pt 5 ps 0.7
set style line 3 lc rgb '#009e73' lw 2 pt 9 ps 0.7

do for [format in 'svg png'] {
  if (format eq 'svg') { set terminal svg size 1000,400 dynamic font 'DejaVu Sans,13' }
  else { set terminal pngcairo size 1000,400 font 'DejaVu Sans,10' }
  set output folder.'/growth.'.format
  set multiplot layout 1,2
  set ylabel 'one suggestion (ms)'
  set xlabel 'observations, 10^5 candidates'
  set format x '%g'
  plot for [i=0:2] folder.'/observations.csv' index i every ::(i == 0 ? 1 : 0) using 2:(1e3 * $4) ls i+1 title series(i)
  set xlabel 'candidates, 50 observations'
  set format x '10^{%T}'
  plot for [i=0:2] folder.'/candidates.csv' index i every ::(i == 0 ? 1 : 0) using 3:(1e3 * $4) ls i+1 title series(i)
  unset multiplot
  unset output
}
