# Draws the figure 'throughput-time' from the data beside it: gnuplot throughput-time.gp
reset session
set encoding utf8
set datafile separator ','
terminal_pdf = "pdfcairo noenhanced size 3.5in,2.630in font 'DejaVu Sans,6.5' fontscale 0.75 linewidth 2 dashlength 1 background rgb 'white'"
terminal_svg = "svg noenhanced size 504,379 dynamic font 'DejaVu Sans,6.5' fontscale 1.5000 linewidth 2.0000 dashlength 1 background rgb 'white'"
terminal_png = "pngcairo noenhanced size 1050,789 font 'DejaVu Sans,6.5' fontscale 3.1250 linewidth 4.1667 dashlength 1 background rgb 'white'"
do for [format in 'pdf svg png'] {
  eval 'set terminal '.value('terminal_'.format)
  set output 'throughput-time.'.format
  set border 3 linewidth 0.5 linecolor rgb '#444444'
  set tics nomirror out scale 0.4 textcolor rgb '#222222'
  set xtics offset 0,0.2
  set ytics offset 0.4,0
  set grid ytics linetype 1 dashtype solid linewidth 0.4 linecolor rgb '#dddddd'
  set key off
  set label 'A small experiment' at screen 0.5000,0.9612 center font ',7.5'
  set arrow from screen 0.2699,0.9116 to screen 0.3385,0.9116 nohead linecolor rgb '#D55E00' dashtype solid linewidth 2
  set label 'OPPA' at screen 0.3528,0.9116 left
  set arrow from screen 0.4494,0.9116 to screen 0.5180,0.9116 nohead linecolor rgb '#0072B2' dashtype (10,3) linewidth 1.4
  set label 'it'."'".'s RANDOM' at screen 0.5323,0.9116 left
  set label 'simulated cluster; 3 repeats: median and quartiles.' at screen 0.0343,0.0260 left font ',5.5' textcolor rgb '#555555'
  set lmargin at screen 0.1600
  set rmargin at screen 0.9657
  set bmargin at screen 0.1920
  set tmargin at screen 0.8574
  set format xy '%g'
  set label 'search time (min)' at screen 0.5629,0.0894 center
  set label 'best throughput (steps/s)' at screen 0.0257,0.5247 center rotate by 90
  set xtics autofreq norotate font ',6.5'
  set xrange [0:10]
  unset logscale y
  set yrange [0:2.1]
  set label 'optimum' at graph 0.015, first 2 left offset graph 0,0.036 front font ',5.5' textcolor rgb '#555555'
  plot 'throughput-time.csv' skip 1 using ($1/60):3:4 with filledcurves fillcolor rgb '#D55E00' fillstyle transparent solid 0.18 noborder, \
       'throughput-time.csv' skip 1 using ($1/60):3 with lines linecolor rgb '#a0D55E00' dashtype solid linewidth 0.4, \
       'throughput-time.csv' skip 1 using ($1/60):4 with lines linecolor rgb '#a0D55E00' dashtype solid linewidth 0.4, \
       'throughput-time.csv' skip 1 using ($1/60):6:7 with filledcurves fillcolor rgb '#0072B2' fillstyle transparent solid 0.08 noborder, \
       'throughput-time.csv' skip 1 using ($1/60):6 with lines linecolor rgb '#a00072B2' dashtype solid linewidth 0.4, \
       'throughput-time.csv' skip 1 using ($1/60):7 with lines linecolor rgb '#a00072B2' dashtype solid linewidth 0.4, \
       'throughput-time.csv' skip 1 using ($1/60):2 with lines linecolor rgb '#D55E00' dashtype solid linewidth 2, \
       'throughput-time.csv' skip 1 using ($1/60):5 with lines linecolor rgb '#0072B2' dashtype (10,3) linewidth 1.4, \
       2 with lines linecolor rgb '#555555' dashtype (4,3) linewidth 0.7
  unset label
  unset arrow
  set output
}
