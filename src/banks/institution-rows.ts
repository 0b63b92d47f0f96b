/**
 * The institutions at the interbank switch (NIP), one on each line: the six-digit NIP code, the three-digit code of the
 * central bank if the institution is a commercial bank, and the name. `MFB` is short for "Microfinance Bank".
 *
 * Source: lists of NIP institutions in public integrations, as of 2024 and 2025 (Providus, Spotflow and Purs, among
 * others). Where lists disagree, the row has the value of at least two lists, and the newer name of a renamed institution.
 * In at least one public list, the names between 090160 and 090391 are shifted by a row. Institutions whose licence was
 * revoked by then are left out.
 */
export const INSTITUTION_ROWS = `
000001 232 Sterling Bank
000002 082 Keystone Bank
000003 214 First City Monument Bank
000004 033 United Bank for Africa
000005 063 Access Bank (Diamond)
000006 301 Jaiz Bank
000007 070 Fidelity Bank
000008 076 Polaris Bank
000009 023 Citibank Nigeria
000010 050 Ecobank Nigeria
000011 215 Unity Bank
000012 221 Stanbic IBTC Bank
000013 058 Guaranty Trust Bank
000014 044 Access Bank
000015 057 Zenith Bank
000016 011 First Bank of Nigeria
000017 035 Wema Bank
000018 032 Union Bank of Nigeria
000021 068 Standard Chartered Bank
000022 100 SunTrust Bank
000023 101 Providus Bank
000024 --- Rand Merchant Bank
000025 102 Titan Trust Bank
000026 302 TAJ Bank
000027 103 Globus Bank
000029 303 Lotus Bank
000030 104 Parallex Bank
000031 105 PremiumTrust Bank
000033 --- eNaira
000034 106 Signature Bank
000036 107 Optimus Bank
000037 304 The Alternative Bank
000042 --- Tatum Bank
050001 --- County Finance
050002 --- Fewchore Finance
050003 --- SageGrey Finance
050004 --- Newedge Finance
050005 --- AAA Finance and Investment
050006 --- Branch International Finance
050007 --- Tekla Finance
050008 --- Simple Finance
050009 --- Fast Credit
050010 --- FundQuest Financial Services
050012 --- Enco Finance
050013 --- Dignity Finance
050014 --- Trinity Financial Services
050019 --- Zedvance Finance
050020 --- Vale Finance
050021 --- Poder Finance
050022 --- First Marina Trust
050024 --- Sciart Finance
050035 --- Whitecrust Finance
060001 --- Coronation Merchant Bank
060002 --- FBNQuest Merchant Bank
060003 --- Nova Bank
060004 --- Greenwich Merchant Bank
070001 --- NPF MFB
070006 --- Covenant MFB
070007 --- Livingtrust Mortgage Bank
070008 --- Page MFB
070009 --- Gateway Mortgage Bank
070010 --- Abbey Mortgage Bank
070011 --- Refuge Mortgage Bank
070012 --- Lagos Building and Investment Company
070013 --- Platinum Mortgage Bank
070014 --- First Generation Mortgage Bank
070015 --- Brent Mortgage Bank
070016 --- Infinity Trust Mortgage Bank
070017 --- Haggai Mortgage Bank
070019 --- Mayfresh Mortgage Bank
070021 --- Cooperative Mortgage Bank
070022 --- STB Mortgage Bank
070023 --- Delta Trust Mortgage Bank
070024 --- Homebase Mortgage Bank
070025 --- Akwa Savings and Loans
070026 --- FHA Mortgage Bank
070030 --- Adamawa Mortgage Bank
080002 --- Tajwallet
080003 --- Summit Bank
090001 --- ASO Savings and Loans
090003 --- Jubilee-Life Mortgage Bank
090005 --- Trustbond Mortgage Bank
090006 --- SafeTrust Mortgage Bank
090097 --- Ekondo MFB
090107 --- First Trust Mortgage Bank
090108 --- New Prudential Bank
090110 --- VFD MFB
090111 --- FinaTrust MFB
090112 --- Seed Capital MFB
090113 --- Microvis MFB
090114 --- Empire Trust MFB
090115 --- TCF MFB
090116 --- AMML MFB
090117 --- Boctrust MFB
090118 --- Ibile MFB
090119 --- Ohafia MFB
090120 --- Wetland MFB
090121 --- Hasal MFB
090122 --- Gowans MFB
090123 --- TrustBanc J6 MFB
090124 --- Xslnce MFB
090125 --- Regent MFB
090126 --- Fidfund MFB
090127 --- BC Kash MFB
090128 --- Ndiorah MFB
090129 --- Money Trust MFB
090130 --- Consumer MFB
090131 --- Allworkers MFB
090132 --- Richway MFB
090133 --- Al-Barakah MFB
090134 --- Accion MFB
090135 --- Personal Trust MFB
090136 --- Baobab MFB
090137 --- PecanTrust MFB
090138 --- Royal Exchange MFB
090139 --- Visa MFB
090140 --- Sagamu MFB
090141 --- Chikum MFB
090142 --- Yes MFB
090143 --- Apeks MFB
090144 --- CIT MFB
090145 --- Fullrange MFB
090146 --- Trident MFB
090147 --- Hackman MFB
090148 --- Bowen MFB
090149 --- IRL MFB
090150 --- Virtue MFB
090151 --- Mutual Trust MFB
090152 --- Nagarta MFB
090153 --- FFS MFB
090154 --- CEMCS MFB
090155 --- Advans La Fayette MFB
090156 --- e-Barcs MFB
090157 --- Infinity MFB
090158 --- FUTO MFB
090159 --- Credit Afrique MFB
090160 --- Addosser MFB
090161 --- Okpoga MFB
090162 --- Stanford MFB
090163 --- First Multiple MFB
090164 --- First Royal MFB
090165 --- Petra MFB
090166 --- Eso-E MFB
090167 --- Daylight MFB
090168 --- Gashua MFB
090169 --- Alpha Kapital MFB
090170 --- Rahama MFB
090171 --- Mainstreet MFB
090172 --- Astrapolaris MFB
090173 --- Reliance MFB
090174 --- Malachy MFB
090175 --- Rubies MFB
090176 --- Bosak MFB
090177 --- LAPO MFB
090178 --- GreenBank MFB
090179 --- FAST MFB
090180 --- AMJU Unique MFB
090181 --- Balogun Fulani MFB
090182 --- Standard MFB
090186 --- Girei MFB
090188 --- Baines Credit MFB
090189 --- Esan MFB
090190 --- Mutual Benefits MFB
090191 --- KCMB MFB
090192 --- Midland MFB
090193 --- Unical MFB
090194 --- NIRSAL MFB
090195 --- Grooming MFB
090196 --- Pennywise MFB
090197 --- ABU MFB
090198 --- RenMoney MFB
090201 --- Xpress Payments
090202 --- Accelerex Network
090205 --- New Dawn MFB
090211 --- ITEX Integrated Services
090251 --- UNN MFB
090252 --- Yobe MFB
090254 --- Coalcamp MFB
090258 --- Imo State MFB
090259 --- Alekun MFB
090260 --- Above Only MFB
090261 --- Quickfund MFB
090262 --- Stellas MFB
090263 --- Nigerian Navy MFB
090264 --- Auchi MFB
090265 --- Lovonus MFB
090266 --- Uniben MFB
090267 --- Kuda MFB
090268 --- Adeyemi College Staff MFB
090269 --- Greenville MFB
090270 --- AB MFB
090271 --- Lavender MFB
090272 --- Olabisi Onabanjo University MFB
090273 --- Emeralds MFB
090274 --- Prestige MFB
090275 --- BankIT MFB (Meridian)
090276 --- Trustfund MFB
090277 --- Al-Hayat MFB
090278 --- Glory MFB
090279 --- Ikire MFB
090280 --- Megapraise MFB
090281 --- Mint-Finex MFB
090282 --- Arise MFB
090283 --- Thrive MFB (Nnew Women)
090285 --- First Option MFB
090286 --- Safe Haven MFB
090287 --- AssetMatrix MFB
090289 --- Pillar MFB
090290 --- FCT MFB
090291 --- HalalCredit MFB
090292 --- Afekhafe MFB
090293 --- Brethren MFB
090294 --- Eagle Flight MFB
090295 --- Omiye MFB
090296 --- Polyunwana MFB
090297 --- Alert MFB
090298 --- Fedpoly Nasarawa MFB
090299 --- Kontagora MFB
090302 --- Sunbeam MFB
090303 --- Purplemoney MFB
090304 --- Evangel MFB
090305 --- Sulspap MFB
090307 --- Aramoko MFB
090308 --- Brightway MFB
090310 --- EdFin MFB
090315 --- U & C MFB
090316 --- Bayero University MFB
090317 --- PatrickGold MFB
090318 --- Federal University Dutse MFB
090319 --- Bonghe MFB
090320 --- Kadpoly MFB
090321 --- Mayfair MFB
090322 --- Rephidim MFB
090323 --- Mainland MFB
090324 --- Ikenne MFB
090325 --- Sparkle MFB
090326 --- Balogun Gambari MFB
090327 --- Trust MFB
090328 --- Eyowo MFB
090329 --- Neptune MFB
090330 --- Fame MFB
090331 --- UNAAB MFB
090332 --- Evergreen MFB
090333 --- Oche MFB
090335 --- Grant MFB
090336 --- BIPC MFB
090337 --- Iyeru Okin MFB
090338 --- UniUyo MFB
090340 --- Stockcorp MFB
090341 --- Unilorin MFB
090343 --- Citizen Trust MFB
090345 --- OAU MFB
090349 --- Nasarawa MFB
090350 --- Ilorin MFB
090352 --- Jessefield MFB
090353 --- Isuofia MFB
090360 --- CashConnect MFB
090362 --- Molusi MFB
090363 --- Headway MFB
090364 --- Nuture MFB
090365 --- Corestep MFB
090366 --- Firmus MFB
090369 --- Seedvest MFB
090370 --- Ilisan MFB
090371 --- Agosasa MFB
090372 --- Legend MFB
090373 --- Think Finance MFB
090374 --- Coastline MFB
090376 --- Apple MFB
090377 --- Isaleoyo MFB
090378 --- New Golden Pastures MFB
090379 --- Peniel MFB
090380 --- Kredi Money MFB
090383 --- Manny MFB
090385 --- GTI MFB
090386 --- Interland MFB
090389 --- EK-Reliable MFB
090390 --- Parkway MFB
090391 --- Davodani MFB
090392 --- Mozfin MFB
090393 --- Bridgeway MFB
090394 --- AMAC MFB
090395 --- Borgu MFB
090396 --- Oscotech MFB
090397 --- Chanelle MFB
090398 --- Federal Polytechnic Nekede MFB
090399 --- Nwannegadi MFB
090400 --- Finca MFB
090401 --- Shepherd Trust MFB
090402 --- Peace MFB
090403 --- Uda MFB
090404 --- Olowolagba MFB
090405 --- Moniepoint MFB
090406 --- Business Support MFB
090408 --- GMB MFB
090409 --- FCMB MFB
090410 --- Maritime MFB
090411 --- Giginya MFB
090412 --- Preeminent MFB
090413 --- Benysta MFB
090414 --- Crutech MFB
090415 --- Calabar MFB
090416 --- Chibueze MFB
090417 --- Imowo MFB
090418 --- Highland MFB
090419 --- Winview MFB
090420 --- Letshego MFB
090421 --- Izon MFB
090422 --- Landgold MFB
090423 --- Mautech MFB
090424 --- Abucoop MFB
090425 --- Banex MFB
090426 --- Tangerine Money MFB
090427 --- Ebonyi State University MFB
090428 --- Ishie MFB
090429 --- Cross River MFB
090430 --- Ilora MFB
090431 --- Bluewhales MFB
090432 --- Memphis MFB
090433 --- Rigo MFB
090434 --- Insight MFB
090435 --- Links MFB
090436 --- Spectrum MFB
090437 --- Oakland MFB
090438 --- Futminna MFB
090439 --- Ibeto MFB
090440 --- Cherish MFB
090441 --- Giwa MFB
090443 --- Rima MFB
090444 --- BOI MFB
090445 --- Capstone MFB
090446 --- Support MFB
090448 --- Moyofade MFB
090450 --- Kwasu MFB
090451 --- ATBU MFB
090452 --- Unilag MFB
090453 --- Uzondu MFB
090454 --- Borstal MFB
090455 --- Mkobo MFB
090456 --- Ospoly MFB
090459 --- Nice MFB
090460 --- Oluyole MFB
090461 --- Unibadan MFB
090462 --- Monarch MFB
090463 --- Rehoboth MFB
090464 --- Unimaid MFB
090465 --- Maintrust MFB
090466 --- YCT MFB
090467 --- Good Neighbours MFB
090468 --- Olofin Owena MFB
090469 --- Aniocha MFB
090470 --- DOT MFB
090471 --- Oluchukwu MFB
090472 --- Caretaker MFB
090473 --- Assets MFB
090474 --- Verdant MFB
090475 --- Giant Stride MFB
090476 --- Anchorage MFB
090477 --- Light MFB
090478 --- Avuenegbe MFB
090479 --- First Heritage MFB
090480 --- Kolomoni MFB
090481 --- Prisco MFB
090483 --- Ada MFB
090484 --- Garki MFB
090485 --- Safegate MFB
090486 --- Fortress MFB
090487 --- Kingdom College MFB
090488 --- Ibu-Aje MFB
090489 --- Alvana MFB
090490 --- Chukwunenye MFB
090492 --- Oraukwu MFB
090493 --- Iperu MFB
090495 --- Goodnews MFB
090496 --- Randalpha MFB
090498 --- Catland MFB
090499 --- Pristine Divitis MFB
090502 --- Shalom MFB
090503 --- Projects MFB
090504 --- Zikora MFB
090505 --- Nigeria Prisons MFB
090506 --- Solid Allianze MFB
090513 --- SEAP MFB
090515 --- Rima Growth Pathway MFB
090517 --- Uhuru MFB
090519 --- Ibom Fadama MFB
090520 --- IC Global MFB
090521 --- Foresight MFB
090524 --- Solidrock MFB
090525 --- TripleA MFB
090526 --- Crescent MFB
090529 --- Ampersand MFB
090530 --- Confidence MFB
090536 --- Ikoyi Osun MFB
090539 --- Enrich MFB
090541 --- Excellent MFB
090542 --- Otuo MFB
090543 --- Iwoama MFB
090544 --- Aspire MFB
090545 --- Abulesoro MFB
090546 --- Ijebu-Ife MFB
090547 --- Rockshield MFB
090548 --- Ally MFB
090549 --- KC MFB
090550 --- Green Energy MFB
090551 --- FairMoney MFB
090553 --- Consistent Trust MFB
090554 --- Kayvee MFB
090555 --- Bishopgate MFB
090557 --- Lifegate MFB
090558 --- Shongom MFB
090559 --- Shield MFB
090560 --- Crust MFB (Tanadi)
090561 --- Akuchukwu MFB
090562 --- Cedar MFB
090563 --- Balera MFB
090564 --- Supreme MFB
090565 --- Oke-Aro Oredegbe MFB
090566 --- Okuku MFB
090567 --- Orokam MFB
090568 --- Broadview MFB
090571 --- Ilaro Poly MFB
090574 --- Goldman MFB
090580 --- Otech MFB
090589 --- Mercury MFB
090591 --- Gabsyn MFB
090599 --- Greenacres MFB
090602 --- Kenechukwu MFB
090611 --- Creditville MFB
090613 --- Build MFB
090614 --- Aella MFB
090615 --- Bestar MFB
090620 --- Loma MFB
090629 --- 9jaPay MFB
090645 --- Nombank MFB
090685 --- Moremonee MFB
090692 --- Moneytronics MFB
090707 --- Eastman MFB
090743 --- Blooms MFB
090788 --- Tellerone MFB
090801 --- Toprate MFB
090804 --- Bowman MFB
090813 --- Victory MFB
090814 --- Umuoji MFB
090815 --- Charis MFB
090816 --- ARM MFB
090817 --- Auchi Poly MFB
090819 --- Boost MFB
090820 --- Ukpor MFB
090821 --- DSC MFB
090822 --- Noun MFB
090824 --- Mega MFB
090828 --- Dillon MFB
090832 --- 5TT MFB
090835 --- Flexi MFB
100001 --- FETS
100002 --- Paga
100003 --- Parkway ReadyCash
100004 --- OPay
100005 --- Cellulant
100006 --- eTranzact
100007 --- Stanbic IBTC @ease Wallet
100008 --- Ecobank Xpress Account
100009 --- GTMobile
100010 --- TeasyMobile
100011 --- Mkudi
100012 --- VTNetworks
100013 --- AccessMoney
100014 --- FirstMonie Wallet
100015 --- ChamsMobile
100016 --- Fortis Mobile
100017 --- Hedonmark
100018 --- Zenith Mobile
100019 --- Fidelity Mobile
100020 --- MoneyBox
100021 --- Eartholeum
100022 --- Sterling Mobile
100023 --- TagPay
100024 --- Imperial Homes Mortgage Bank
100025 --- KongaPay
100026 --- Carbon
100027 --- Intellifin
100028 --- AG Mortgage Bank
100029 --- Innovectives Kesh
100030 --- EcoMobile
100031 --- FCMB Mobile
100032 --- NowNow Digital Systems
100033 --- PalmPay
100034 --- Zenith Eazy Wallet
100035 --- M36
100036 --- Kegow (ChamsMobile)
100039 --- Titan-Paystack
100052 --- Access Yello & Beta
110001 --- PayAttitude Online
110002 --- Flutterwave Technology Solutions
110003 --- Interswitch
110004 --- First Apple
110005 --- 3Line Card Management
110006 --- Paystack Payments
110007 --- TeamApt
110009 --- Venture Garden Nigeria
110014 --- Cyberspace
110017 --- Crowdforce
110059 --- HabariPay
110072 --- 78 Finance
110074 --- Betastack Technologies
120001 --- 9 Payment Service Bank
120002 --- HopePSB
120003 --- MoMo Payment Service Bank
120004 --- SmartCash Payment Service Bank
120005 --- MoneyMaster Payment Service Bank
400001 --- FSDH Merchant Bank
`
